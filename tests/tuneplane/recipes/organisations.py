"""Directories with recipes of an organisation, for tests of both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

# Stands on what is built in for TRL: owned keys, runtimes and pins are not said again.
SFT: dict[str, Any] = {
    "name": "trl/acme-sft",
    "keys_of": "sft",
    "version": "3.1",
    "title": "Our fine-tuning",
    "summary": "As the house does it.",
    "category": "sft",
    "params": {"rate": {"path": "learning_rate", "doc": "Rate.", "group": "optimizer"}},
}
SCRIPT: dict[str, Any] = {
    "apiVersion": "tuneplane/recipe/v1",
    "name": "custom/acme-script",
    "version": "1.0",
    "title": "Our script",
    "summary": "Runs the house's script.",
    "framework": "custom",
    "category": "custom",
    "entrypoint": {"kind": "experiment", "value": "train.sh"},
    "adapter_options": {"observability": "platform"},
    "runtime": {"default_version": "1.0", "versions": {"1.0": {"runtime_id": "custom"}}},
}
TEMPLATES = {
    "trl": {"config.yaml": "learning_rate: 1.0e-5\n", "README.md": "# Ours\n", "train.py": "print('ours')\n"},
    "custom": {"config.yaml": "depth: 3\n", "README.md": "# Ours\n", "train.sh": "echo ours\n"},
}


def write_recipe(
    root: Path, manifest: dict[str, Any] = SFT, files: dict[str, str] | None = None, **changes: Any
) -> Path:
    """`<root>/<framework>/<method>` with the manifest (with `changes`) and a template; returns `root`."""
    written = {**manifest, **changes}
    directory = root / written["name"]
    for name, text in (files or TEMPLATES[written["name"].split("/")[0]]).items():
        path = directory / "template" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (directory / "recipe.yaml").write_text(yaml.safe_dump(written), encoding="utf-8")
    return root


def tree_of(root: Path) -> dict[str, bytes]:
    """Path below the directory -> content."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
