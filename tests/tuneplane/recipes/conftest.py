"""A catalog of one small recipe, made and compiled by the test that uses it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tuneplane.recipes import compile as compiler
from tuneplane.recipes import index

MANIFEST: dict[str, Any] = {
    "apiVersion": "tuneplane/recipe/v1",
    "name": "toy/sft",
    "version": "1.0",
    "title": "Toy",
    "summary": "A toy.",
    "framework": "toy",
    "category": "sft",
    "entrypoint": {"kind": "experiment", "value": "train.py"},
    "adapter_options": {"config_mode": "flat", "owned": {"out": "tp submit --out"}, "fixed": {"out": 1}},
    "metrics": {"primary": "train/loss", "aliases": {"loss": "train/loss", "rewards/*": "train/rewards/*"}},
    "runtime": {
        "default_version": "2",
        "versions": {
            "1": {"runtime_id": "toy-1", "requires": ["toy==1.0"]},
            "2": {"runtime_id": "toy-2", "requires": ["toy==2.0"]},
        },
    },
    "params": {
        "rate": {"type": "float", "path": "rate", "exclusive_min": 0, "default": 0.1, "doc": "Rate.", "group": "g"},
        "mode": {
            "type": "enum", "path": "mode", "choices": ["fast", "slow"], "default": "fast", "doc": "Mode.", "group": "g",
        },
    },
    "i18n": {"zh-Hans": {"title": "玩具", "summary": "一个玩具。", "params": {"rate": "速率。", "mode": "模式。"}}},
}  # fmt: skip
KEYS: dict[str, Any] = {
    "rate": {"type": ["float"], "exclusive_min": 0, "default": 0.1, "source": "meaning"},
    "mode": {"type": ["str"], "choices": ["fast", "slow"], "default": "fast"},
    "depth": {"type": ["int"], "default": 1},
    "out": {"type": ["int"], "default": 0},
}


class ToyCatalog:
    """`manifest` and `files` are what the next `compile()` sees."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.manifest: dict[str, Any] = json.loads(json.dumps(MANIFEST))
        self.files = {"config.yaml": "rate: 0.5\n", "train.py": "print('x')\n", "README.md": "# Toy\n"}
        self.keys: dict[str, Any] = json.loads(json.dumps(KEYS))

    @property
    def recipe(self) -> Path:
        return self.root / "toy/sft"

    def write(self) -> None:
        template = self.recipe / "template"
        template.mkdir(parents=True, exist_ok=True)
        (self.recipe / "recipe.yaml").write_text(yaml.safe_dump(self.manifest, allow_unicode=True), encoding="utf-8")
        for name, text in self.files.items():
            (template / name).write_text(text, encoding="utf-8")
        for version in ("1", "2"):
            schema = {"framework": "toy", "version": version, "common": self.keys, "methods": {"sft": {}}}
            (self.root / f"toy/schema-{version}.json").write_text(json.dumps(schema), encoding="utf-8")

    def compile(self) -> dict[str, Any]:
        """Write everything, compile it, and return the entry."""
        self.write()
        (self.root / "index.json").write_text(compiler.render_index(compiler.build_index(self.root)), encoding="utf-8")
        index.forget()
        return index.entry("toy/sft", self.root)


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[ToyCatalog]:
    yield ToyCatalog(tmp_path / "catalog")
    index.forget()
