"""A lab written for an earlier client of this kind is taken over: its locks are written anew, its nested configs inherit and validate."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.tuneplane.cli.conftest import Tp, tree
from tuneplane.lab.config import load_config
from tuneplane.recipes.foreign_lock import read_foreign

EARLIER = Path(__file__).parents[1] / "lab" / "earlier_lab"
METHODS = {
    "dpo-pairs": "trl/dpo",
    "grpo-math": "verl/grpo",
    "grpo-nemo": "nemo-rl/grpo",
    "script": "custom/custom",
    "sft-chat": "trl/sft",
}


@pytest.fixture
def earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "earlier"
    shutil.copytree(EARLIER, root)
    monkeypatch.chdir(root)
    return root


def test_it_is_recognised_and_the_way_over_is_told(tp: Tp, earlier: Path) -> None:
    items = tp("ls", "--json").json["items"]
    assert {item["name"]: (item["method"], item["state"]) for item in items} == {
        name: (method, "foreign") for name, method in METHODS.items()
    }
    answer = tp("validate", "--all", "--json", code=3)
    assert {refusal["code"] for refusal in answer.problem["refusals"]} == {"lock-foreign"}
    assert "tp recipe lock grpo-math" in tp("validate", "--all", code=3).err


def test_one_command_takes_it_over(tp: Tp, earlier: Path) -> None:
    before = tree(earlier)
    locked = tp("recipe", "lock", "--all", "--json").json["items"]
    assert {item["experiment"]: item["method"] for item in locked} == METHODS
    assert [item["state"] for item in locked] == ["foreign"] * len(METHODS)
    assert tp("validate", "--all").out.count(": valid (") == len(METHODS)
    assert {item["state"] for item in tp("ls", "--json").json["items"]} == {"current"}
    changed = {name for name, content in tree(earlier).items() if before.get(name) != content}
    assert changed == {f"experiments/{name}/recipe.lock.json" for name in METHODS}


def test_the_framework_version_is_kept_where_it_is_still_offered(tp: Tp, earlier: Path) -> None:
    old = {name: read_foreign(earlier / "experiments" / name / "recipe.lock.json") for name in METHODS}
    tp("recipe", "lock", "--all")
    for name in ("grpo-math", "sft-chat"):
        new = json.loads((earlier / "experiments" / name / "recipe.lock.json").read_text())
        assert new["framework"]["version"] == old[name].framework_version
    nemo = json.loads((earlier / "experiments/grpo-nemo/recipe.lock.json").read_text())
    assert nemo["framework"]["version"] != old["grpo-nemo"].framework_version == "0.5"


def test_nested_configs_inherit_as_they_did(earlier: Path) -> None:
    found = load_config(earlier / "experiments/grpo-math", earlier)
    assert found.values["data"] == {
        "max_prompt_length": 1024,
        "max_response_length": 4096,
        "train_batch_size": 128,
    }
    assert found.values["actor_rollout_ref"]["actor"]["optim"] == {"lr": 5e-07}
    assert found.values["actor_rollout_ref"]["rollout"] == {"name": "vllm", "gpu_memory_utilization": 0.6, "n": 8}
    assert found.shared.data["train"] == {"dataset": "house/gsm8k@2", "split": "train"}
    assert found.shared.evaluation["gates"] == [{"metric": "validation/accuracy", "min": 0.4}]
    assert [path.name for path in found.sources] == ["base.yaml", "math.yaml", "config.yaml"]
    assert load_config(earlier / "experiments/grpo-nemo", earlier).values["grpo"]["num_generations_per_prompt"] == 16
    assert load_config(earlier / "experiments/sft-chat", earlier).values["lora_r"] == 16


@pytest.mark.parametrize("experiment", ["grpo-math", "grpo-nemo", "dpo-pairs"])
@pytest.mark.parametrize(
    ("file", "text", "code", "line", "said"),
    [
        ("loop.yaml", "# one\ndefaults: [back.yaml]\n", "config-cycle", 1, "circle"),
        ("gone.yaml", "# one\n\ndefaults:\n  - none.yaml\n", "file-missing", 4, "none.yaml"),
        ("out.yaml", "defaults: [../../../outside.yaml]\n", "config-invalid", 1, "outside the lab"),
        ("list.yaml", "defaults: [{verl: x}]\n", "config-invalid", 1, "list of paths"),
        ("bad.yaml", "a:\n  b: [\n", "yaml-invalid", 3, "YAML"),
    ],
)
def test_broken_defaults_are_refused_where_they_stand(
    tp: Tp, earlier: Path, experiment: str, file: str, text: str, code: str, line: int, said: str
) -> None:
    tp("recipe", "lock", experiment)
    (earlier / "configs/back.yaml").write_text("defaults: [loop.yaml]\n")
    (earlier / "configs" / file).write_text(text)
    config = earlier / "experiments" / experiment / "config.yaml"
    config.write_text(f"defaults: [configs/{file}]\n")
    (refusal,) = tp("validate", experiment, "--json", code=3).problem["refusals"]
    at = "back.yaml" if code == "config-cycle" else file
    assert (refusal["code"], Path(refusal["file"]).name, refusal["line"]) == (code, at, line)
    assert said in refusal["message"]
    assert f"configs/{at}:{line}" in tp("validate", experiment, code=3).err
