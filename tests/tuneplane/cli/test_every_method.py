"""`tp new`, `tp validate` and an offline `tp submit --dry-run` for every method of the catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tuneplane.cli.conftest import Tp
from tuneplane.recipes import index

OPTIONS = (
    "--profile", "h200:8", "--model", "hf:Qwen/Qwen3-0.6B", "--train-data", "/data/train.jsonl",
    "--observability-url", "https://curves.example.org/run", "--dry-run",
)  # fmt: skip


def test_each_method_is_made_is_valid_and_shows_what_it_will_run(
    tp: Tp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tp("init", str(tmp_path / "lab"))
    monkeypatch.chdir(tmp_path / "lab")
    for method in index.methods():
        name = method.replace("/", "-")
        tp("new", name, "--method", method)
        found = tp("submit", name, *OPTIONS, "--json").json
        assert found["refusals"] == [], method
        assert found["admission"]["asked"] is False
        plan = found["plan"]
        assert plan["command"], method
        assert plan["env"]["TUNEPLANE_RECIPE"] == method
        assert plan["env"]["BASE_MODEL_DIR"] == "Qwen/Qwen3-0.6B"
        assert plan["cwd"] == f"lab/experiments/{name}"
    assert tp("validate", "--all").out.count(": valid (") == len(index.methods())
    shown = tp("submit", "trl-sft", *OPTIONS).out
    assert [line for line in shown.splitlines() if line.startswith("── ")][:4] == [
        "── JobSpec",
        "── Admission",
        "── Command",
        "── Environment",
    ]
