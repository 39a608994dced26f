"""Record the settings of the templates that are programs of our own: the dataclass in settings.py is what config.yaml is checked against.

    .venv/bin/python scripts/schemas/record_settings.py [--check]

Writes a schema for each runtime version of each recipe; the settings are the same in all of them. `--check` writes nothing and fails when
a file is not current.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
import typing
from pathlib import Path
from typing import Any

import yaml
from record_trl import default_of, describe
from recording import keep, rendered

CATALOG = Path(__file__).parents[2] / "packages/tuneplane/src/tuneplane/recipes/catalog"
RECIPES = ("pytorch/image-classification", "evalkit/benchmark")
FACTS = ("min", "max", "exclusive_min", "exclusive_max", "choices")


def main(arguments: list[str]) -> int:
    wanted = {path: text for recipe in RECIPES for path, text in schemas_of(recipe).items()}
    return keep(wanted, "the template's settings.py", check="--check" in arguments)


def schemas_of(recipe: str) -> dict[Path, str]:
    """File -> text of every runtime version."""
    framework, method = recipe.split("/")
    manifest = yaml.safe_load((CATALOG / recipe / "recipe.yaml").read_text(encoding="utf-8"))
    keys = settings_of(CATALOG / recipe / "template")
    found = {}
    for version in manifest["runtime"]["versions"]:
        schema = {
            "framework": framework,
            "version": version,
            "recorded_from": {"template": f"{method}/template/settings.py"},
            "common": {},
            "methods": {method: keys},
        }
        found[CATALOG / framework / f"schema-{version}.json"] = rendered(schema)
    return found


def settings_of(template: Path) -> dict[str, dict[str, Any]]:
    """Key -> {type, nullable, default, choices, bounds} of the dataclass `Settings`."""
    name = f"settings_of_{template.parent.name}".replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, template / "settings.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(template))
    spec.loader.exec_module(module)
    sys.path.remove(str(template))
    hints = typing.get_type_hints(module.Settings)
    return {
        item.name: {
            **describe(hints[item.name]),
            **default_of(item),
            **{fact: item.metadata[fact] for fact in FACTS if fact in item.metadata},
            **({"source": "settings.py"} if item.metadata else {}),
        }
        for item in dataclasses.fields(module.Settings)
    }


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
