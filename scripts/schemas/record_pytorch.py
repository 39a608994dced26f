"""Record the settings of the template of pytorch/image-classification: its own dataclass is what its config.yaml is checked against.

    .venv/bin/python scripts/schemas/record_pytorch.py [--check]

Writes a schema for each runtime version of the recipe; the settings are the same in all of them. `--check` writes nothing and fails when
a file is not current.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import sys
import typing
from pathlib import Path
from typing import Any

import yaml
from record_trl import default_of, describe

FOLDER = Path(__file__).parents[2] / "packages/tuneplane/src/tuneplane/recipes/catalog/pytorch"
RECIPE = FOLDER / "image-classification"
BOUNDS = ("min", "max", "exclusive_min", "exclusive_max")


def main(arguments: list[str]) -> int:
    keys = settings_of(RECIPE / "template/settings.py")
    versions = yaml.safe_load((RECIPE / "recipe.yaml").read_text(encoding="utf-8"))["runtime"]["versions"]
    stale = {
        path: text
        for path, text in files(versions, keys).items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in stale.items():
        if "--check" in arguments:
            sys.stderr.write(f"{path} is not what the template's settings.py says; run this script without --check\n")
        else:
            path.write_text(text, encoding="utf-8")
    return int("--check" in arguments and bool(stale))


def files(versions: dict[str, Any], keys: dict[str, Any]) -> dict[Path, str]:
    return {
        FOLDER / f"schema-{version}.json": json.dumps(
            {
                "framework": "pytorch",
                "version": version,
                "recorded_from": {"template": "image-classification/template/settings.py"},
                "common": {},
                "methods": {"image-classification": keys},
            },
            indent=1,
            sort_keys=True,
        )
        + "\n"
        for version in versions
    }


def settings_of(path: Path) -> dict[str, dict[str, Any]]:
    """Key -> {type, default, choices, bounds} of the dataclass `Settings`."""
    spec = importlib.util.spec_from_file_location("template_settings", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    hints = typing.get_type_hints(module.Settings)
    return {
        item.name: {
            **describe(hints[item.name]),
            **default_of(item),
            **{bound: item.metadata[bound] for bound in BOUNDS if bound in item.metadata},
            **({"source": "settings.py"} if item.metadata else {}),
        }
        for item in dataclasses.fields(module.Settings)
    }


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
