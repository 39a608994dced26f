"""How a lock stands, in one word: each state from what really leads to it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.recipes.conftest import ToyCatalog
from tuneplane.contract.refusals import REFUSAL_CODES, RefusedError
from tuneplane.recipes import lock
from tuneplane.recipes.foreign_lock import ForeignLock, read_foreign


def runtime_added(toy: ToyCatalog) -> None:
    toy.manifest["runtime"]["versions"]["2"]["requires"] = ["toy==2.1"]


def runtime_renamed(toy: ToyCatalog) -> None:
    toy.manifest["runtime"]["versions"]["2"]["runtime_id"] = "toy-2b"


def deprecated(toy: ToyCatalog) -> None:
    toy.manifest["runtime"]["versions"]["2"]["status"] = "deprecated"


def another_default(toy: ToyCatalog) -> None:
    toy.manifest["runtime"]["default_version"] = "1"


def version_raised(toy: ToyCatalog) -> None:
    runtime_renamed(toy)
    toy.manifest["version"] = "1.1"


def template_changed(toy: ToyCatalog) -> None:
    runtime_renamed(toy)
    toy.files["train.py"] += " "


def parameter_added(toy: ToyCatalog) -> None:
    toy.manifest["params"]["depth"] = {"path": "depth", "doc": "Depth.", "group": "g"}
    toy.manifest["i18n"]["zh-Hans"]["params"]["depth"] = "深度。"


def entry_point_changed(toy: ToyCatalog) -> None:
    toy.files["main.py"] = "print('x')\n"
    toy.manifest["entrypoint"]["value"] = "main.py"


def runtime_gone(toy: ToyCatalog) -> None:
    toy.manifest["runtime"]["default_version"] = "1"
    toy.manifest["runtime"]["versions"]["2"]["status"] = "sunset"


@pytest.mark.parametrize(
    ("change", "state", "codes"),
    [
        (lambda _toy: None, "current", []),
        (runtime_added, "runtime-changed", ["lock-runtime-changed"]),
        (runtime_renamed, "runtime-changed", ["lock-runtime-changed"]),
        (deprecated, "runtime-changed", ["lock-runtime-changed"]),
        (another_default, "runtime-changed", ["lock-runtime-changed"]),
        (version_raised, "stale", ["lock-stale"]),
        (template_changed, "stale", ["lock-stale"]),
        (parameter_added, "stale", ["lock-stale"]),
        (entry_point_changed, "stale", ["lock-stale"]),
        (runtime_gone, "runtime-removed", ["lock-stale", "runtime-removed"]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_changed_recipe_makes_a_lock_what_it_is(
    toy: ToyCatalog, change: Callable[[ToyCatalog], None], state: str, codes: list[str]
) -> None:
    old = lock.make_lock(toy.compile())
    change(toy)
    refusals = lock.check_lock(old, toy.compile(), "first")
    assert [refusal.code for refusal in refusals] == codes
    assert lock.lock_state(refusals) == state
    assert all(refusal.hint == "tp recipe lock first" for refusal in refusals)


def test_a_lock_edited_by_hand_is_tampered_and_one_of_no_method_here_says_so(toy: ToyCatalog) -> None:
    made = lock.make_lock(toy.compile())
    edited = copy.deepcopy(made)
    edited["framework"]["runtime_id"] = "mine"
    assert lock.lock_state(lock.check_lock(edited, toy.compile(), "first")) == "tampered"
    assert lock.lock_state(lock.check_lock(made, None, "first")) == "method-unknown"


def test_every_state_but_current_has_a_code_and_the_other_way_round() -> None:
    assert set(lock.STATE_OF_CODE) <= REFUSAL_CODES
    assert {code for code in REFUSAL_CODES if code.startswith("lock-")} <= set(lock.STATE_OF_CODE)


@pytest.mark.parametrize(
    ("written", "method", "version"),
    [
        ({"recipe": {"name": "verl/grpo", "digest": "sha256:1"}, "framework": {"version": "0.9"}}, "verl/grpo", "0.9"),
        ({"recipe": "verl/grpo"}, "verl/grpo", ""),
        ({"method": "nemo_rl/grpo_lora"}, "nemo-rl/grpo-lora", ""),
        ({"recipe": {"method": "grpo"}, "framework": {"kind": "verl", "version": "0.9"}}, "verl/grpo", "0.9"),
        ({"recipe": {"id": "TRL/SFT"}}, "trl/sft", ""),
        ({"recipe": {"name": "sft"}, "framework": "trl", "runtime": {"framework_version": "1.16"}}, "trl/sft", "1.16"),
        ({"recipe": {"name": 3}, "method": None}, "", ""),
        ({"recipe": {"name": "../../x"}}, "", ""),
    ],
)
def test_a_lock_of_an_earlier_client_names_its_method(
    tmp_path: Path, written: dict[str, Any], method: str, version: str
) -> None:
    path = tmp_path / "recipe.lock.json"
    path.write_text(json.dumps({"apiVersion": "forge/recipe-lock/v4", **written}))
    assert read_foreign(path) == ForeignLock("forge/recipe-lock/v4", method, version)
    with pytest.raises(RefusedError) as caught:
        lock.read_lock(path, "first")
    assert lock.lock_state(caught.value.refusals) == "foreign"


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"[" * 50_000, b'"x"'])
def test_what_is_no_lock_at_all_names_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "recipe.lock.json"
    path.write_bytes(content)
    assert read_foreign(path) == ForeignLock()
