"""A lock locks: made, read, compared; every fault has its code and the one command that mends it."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tuneplane
from tests.tuneplane.recipes.conftest import ToyCatalog
from tuneplane.contract.digests import recipe_digest
from tuneplane.contract.lock import RecipeLock
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.recipes import index, lock

MEND = "tp recipe lock first"
Lock = dict[str, Any]


def refusals_of(path: Path) -> list[Refusal]:
    with pytest.raises(RefusedError) as caught:
        lock.read_lock(path, "first")
    return caught.value.refusals


def test_a_lock_is_what_the_contract_says() -> None:
    for method in index.methods():
        made = lock.make_lock(index.entry(method))
        assert RecipeLock.model_validate(made).to_json() == made


def test_a_lock_written_is_read_again_and_is_current(tmp_path: Path) -> None:
    entry = index.entry("trl/sft")
    path = tmp_path / "recipe.lock.json"
    lock.write_lock(path, lock.make_lock(entry))
    text = path.read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert lock.check_lock(lock.read_lock(path), entry, "first") == []
    assert [item.name for item in tmp_path.iterdir()] == ["recipe.lock.json"]


def test_a_lock_can_pin_any_offered_version(toy: ToyCatalog) -> None:
    entry = toy.compile()
    assert lock.make_lock(entry)["framework"] == {"kind": "toy", "version": "2", "runtime_id": "toy-2"}
    older = lock.make_lock(entry, "1")
    assert older["framework"]["runtime_id"] == "toy-1"
    assert lock.check_lock(older, entry, "first") == []


def test_a_version_that_is_not_offered_cannot_be_locked(toy: ToyCatalog) -> None:
    with pytest.raises(RefusedError) as caught:
        lock.make_lock(toy.compile(), "3")
    (refusal,) = caught.value.refusals
    assert refusal.code == "runtime-removed"
    assert "1, 2" in refusal.message


def test_a_missing_lock(tmp_path: Path) -> None:
    (refusal,) = refusals_of(tmp_path / "recipe.lock.json")
    assert (refusal.code, refusal.hint) == ("lock-missing", MEND)
    assert refusal.file.endswith("recipe.lock.json")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"apiVersion": NaN}',
        b'{"apiVersion": 1}',
        b'{"apiVersion": "tuneplane/recipe-lock/v1", "recipe": []}',
        b"[" * 100_000,
        b'"' + b"x" * (1024 * 1024 + 1),
    ],
)
def test_a_broken_lock(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "recipe.lock.json"
    path.write_bytes(content)
    (refusal,) = refusals_of(path)
    assert (refusal.code, refusal.hint) == ("lock-invalid", MEND)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda found: found.pop("requires"), "requires is missing"),
        (lambda found: found["recipe"].pop("digest"), "recipe.digest is missing"),
        (lambda found: found["recipe"].update(digest="ABC"), "recipe.digest is not what it should be"),
        (lambda found: found["recipe"].update(name="../../etc"), "recipe.name is not what it should be"),
        (lambda found: found["framework"].update(runtime_id="a/b"), "framework.runtime_id is not what it should be"),
        (lambda found: found["framework"].update(version=1), "framework.version is not what it should be"),
        (lambda found: found["bindings"]["params"].update(x=1), "bindings.params.x must hold keys and values"),
        (lambda found: found["bindings"]["params"].update(x={"path": "x"}), "bindings.params.x.type is missing"),
        (lambda found: found.update(extra=1), "there is no key “extra” here"),
    ],
)
def test_a_lock_of_the_wrong_shape_names_the_place(tmp_path: Path, change: Callable[[Lock], Any], named: str) -> None:
    made = lock.make_lock(index.entry("trl/sft"))
    change(made)
    path = tmp_path / "recipe.lock.json"
    path.write_text(json.dumps(made))
    (refusal,) = refusals_of(path)
    assert refusal.code == "lock-invalid"
    assert named in refusal.message


@pytest.mark.parametrize("form", ["forge/recipe-lock/v4", "forge/recipe-lock/v3", "tuneplane/recipe-lock/v9"])
def test_a_lock_of_another_client_is_recognised(tmp_path: Path, form: str) -> None:
    path = tmp_path / "recipe.lock.json"
    path.write_text(json.dumps({"apiVersion": form, "method": "trl/sft", "sha": "0"}))
    (refusal,) = refusals_of(path)
    assert (refusal.code, refusal.hint) == ("lock-foreign", MEND)
    assert form in refusal.message


def flip(text: str) -> str:
    return ("0" if text[0] != "0" else "1") + text[1:]


EDITS: dict[str, Callable[[Lock], Any]] = {
    "digest": lambda found: found["recipe"].update(digest=flip(found["recipe"]["digest"])),
    "manifest digest": lambda found: found["recipe"].update(manifest_digest=flip(found["recipe"]["manifest_digest"])),
    "template digest": lambda found: found["recipe"].update(template_digest=flip(found["recipe"]["template_digest"])),
    "recipe version": lambda found: found["recipe"].update(version="9.9"),
    "framework kind": lambda found: found["framework"].update(kind="custom"),
    "framework version": lambda found: found["framework"].update(version="1.15"),
    "runtime id": lambda found: found["framework"].update(runtime_id="mine"),
    "entry point": lambda found: found["bindings"].update(entrypoint="other.py"),
    "path of a parameter": lambda found: found["bindings"]["params"]["learning_rate"].update(path="output_dir"),
    "type of a parameter": lambda found: found["bindings"]["params"]["learning_rate"].update(type="str"),
    "parameter added": lambda found: found["bindings"]["params"].update(x={"path": "x", "type": "int"}),
    "parameter removed": lambda found: found["bindings"]["params"].pop("learning_rate"),
    "client required": lambda found: found["requires"].update(core="9.0.0"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_by_hand_is_seen(edit: str) -> None:
    entry = index.entry("trl/sft")
    edited = copy.deepcopy(lock.make_lock(entry))
    EDITS[edit](edited)
    (refusal,) = lock.check_lock(edited, entry, "first", "experiments/first/recipe.lock.json")
    assert (refusal.code, refusal.hint) == ("lock-tampered", MEND)
    assert refusal.file == "experiments/first/recipe.lock.json"


def test_an_edited_name_makes_an_unknown_or_a_tampered_lock() -> None:
    made = lock.make_lock(index.entry("trl/sft"))
    made["recipe"]["name"] = "trl/dpo"
    (refusal,) = lock.check_lock(made, index.entry("trl/dpo"), "first")
    assert refusal.code == "lock-tampered"
    assert "trl/dpo" in refusal.message
    assert "trl/sft" in refusal.message
    assert refusal.hint == f"{MEND} --method trl/sft"
    made["recipe"]["name"] = "trl/stf"
    assert [item.code for item in lock.check_lock(made, None, "first")] == ["lock-tampered"]
    made["recipe"]["manifest_digest"] = "0" * 64
    made["recipe"]["digest"] = recipe_digest("0" * 64, made["recipe"]["template_digest"])
    (refusal,) = lock.check_lock(made, None, "first")
    assert refusal.code == "method-unknown"
    assert "trl/sft" in refusal.hint
    assert MEND in refusal.hint


def test_a_lock_of_another_version_is_stale_and_says_what_changed(toy: ToyCatalog) -> None:
    old = lock.make_lock(toy.compile())
    toy.manifest["version"] = "2.0"
    toy.manifest["params"]["depth"] = {"type": "int", "path": "depth", "default": 1, "doc": "Depth.", "group": "g"}
    toy.manifest["i18n"]["zh-Hans"]["params"]["depth"] = "深度。"
    entry = toy.compile()
    (refusal,) = lock.check_lock(old, entry, "first")
    assert (refusal.code, refusal.hint) == ("lock-stale", MEND)
    assert "recipe.version: 1.0 → 2.0" in refusal.message
    assert "bindings.params.depth: - → int depth" in refusal.message
    changed = {change.what for change in lock.diff_lock(old, entry)}
    assert changed == {"recipe.version", "recipe.digest", "recipe.manifest_digest", "bindings.params.depth"}
    assert lock.check_lock(lock.make_lock(entry), entry, "first") == []


def test_one_byte_of_the_template_makes_a_lock_stale(toy: ToyCatalog) -> None:
    old = lock.make_lock(toy.compile())
    toy.files["train.py"] += " "
    entry = toy.compile()
    (refusal,) = lock.check_lock(old, entry, "first")
    assert refusal.code == "lock-stale"
    assert {change.what for change in lock.diff_lock(old, entry)} == {"recipe.digest", "recipe.template_digest"}


@pytest.mark.parametrize("gone", ["removed", "sunset"])
def test_a_runtime_that_is_gone_is_named_beside_the_stale_lock(toy: ToyCatalog, gone: str) -> None:
    old = lock.make_lock(toy.compile(), "1")
    if gone == "removed":
        del toy.manifest["runtime"]["versions"]["1"]
    else:
        toy.manifest["runtime"]["versions"]["1"]["status"] = "sunset"
    entry = toy.compile()
    refusals = lock.check_lock(old, entry, "first")
    assert [refusal.code for refusal in refusals] == ["lock-stale", "runtime-removed"]
    assert {refusal.hint for refusal in refusals} == {MEND}
    assert "framework.version: 1 → 2" in refusals[0].message


def test_a_forged_digest_with_parts_that_agree_is_still_not_the_catalogs(toy: ToyCatalog) -> None:
    entry = toy.compile()
    made = lock.make_lock(entry)
    made["recipe"]["template_digest"] = "0" * 64
    made["recipe"]["digest"] = recipe_digest(made["recipe"]["manifest_digest"], "0" * 64)
    (refusal,) = lock.check_lock(made, entry, "first")
    assert refusal.code == "lock-stale"


@pytest.mark.parametrize("victim", ["template/train.py", "template/data/train.jsonl", "recipe.yaml"])
def test_one_byte_of_the_installed_recipe_refuses_every_lock_of_it(tmp_path: Path, victim: str) -> None:
    """A copy of the client, one byte of it changed; its index still says the old digest."""
    source = Path(tuneplane.__file__).parent
    shutil.copytree(source, tmp_path / "tuneplane", ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "from tuneplane.recipes import index, lock;"
        "e = {m: index.entry(m) for m in ('trl/sft', 'trl/dpo')};"
        "print({m: [r.code for r in lock.check_lock(lock.make_lock(e[m]), e[m], 'first')] for m in e})"
    )
    ask = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    before = subprocess.run(ask, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert before.stdout.strip() == "{'trl/sft': [], 'trl/dpo': []}"
    changed = tmp_path / "tuneplane/recipes/catalog/trl/sft" / victim
    changed.write_bytes(changed.read_bytes() + b"\n")
    after = subprocess.run(ask, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert after.stdout.strip() == "{'trl/sft': ['catalog-mismatch'], 'trl/dpo': []}"
