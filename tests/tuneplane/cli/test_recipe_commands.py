"""`tp recipe lock --all, diff, upgrade, compile, publish, fetch`, and what `tp ls` says of locks; recipes of an organisation on both sides."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.cli.conftest import Tp, tree
from tests.tuneplane.cli.scripted_console import API, ScriptedConsole
from tests.tuneplane.client.scripted_server import as_json
from tests.tuneplane.recipes.organisations import SCRIPT, SFT, tree_of, write_recipe
from tuneplane.contract.digests import recipe_digest
from tuneplane.recipes import index

Lock = dict[str, Any]


@pytest.fixture(autouse=True)
def own_catalog() -> Iterator[None]:
    index.use_recipe_path(None)
    yield
    index.use_recipe_path(None)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A recipe of an organisation that this client knows."""
    made = write_recipe(tmp_path / "house")
    monkeypatch.setenv(index.RECIPE_PATH_VARIABLE, str(made))
    index.forget()
    yield made
    monkeypatch.delenv(index.RECIPE_PATH_VARIABLE)


def lock_of(lab: Path, name: str = "first") -> Path:
    return lab / "experiments" / name / "recipe.lock.json"


def edit(path: Path, change: Callable[[Lock], object]) -> None:
    lock = json.loads(path.read_text())
    change(lock)
    path.write_text(json.dumps(lock))


def of_another_catalog(lock: Lock, *, template: str | None = None) -> None:
    """As a client with another manifest, and perhaps another template, would have written it."""
    recipe = lock["recipe"]
    recipe.update(manifest_digest="a" * 64, template_digest=template or recipe["template_digest"])
    recipe["digest"] = recipe_digest(recipe["manifest_digest"], recipe["template_digest"])


def swap_method(lock: Lock) -> None:
    lock["recipe"]["name"] = "trl/dpo"


def unknown_method(lock: Lock) -> None:
    of_another_catalog(lock)
    lock["recipe"]["name"] = "trl/gone"


def old_runtime(lock: Lock) -> None:
    of_another_catalog(lock)
    lock["framework"].update(version="0.1", runtime_id="trl-0.1")


def foreign(lock: Lock) -> None:
    lock.clear()
    lock.update(apiVersion="forge/recipe-lock/v4", recipe={"name": "trl/sft"}, framework={"version": "1.16"})


STATES: dict[str, tuple[Callable[[Lock], object], str, str]] = {
    "current": (lambda _lock: None, "", "current"),
    "runtime-changed": (of_another_catalog, "lock-runtime-changed", "runtime changed"),
    "stale": (lambda lock: of_another_catalog(lock, template="b" * 64), "lock-stale", "stale"),
    "tampered": (lambda lock: lock["bindings"].update(entrypoint="x.py"), "lock-tampered", "tampered"),
    "foreign": (foreign, "lock-foreign", "of another client"),
    "method-unknown": (unknown_method, "method-unknown", "method unknown"),
    "runtime-removed": (old_runtime, "lock-stale", "runtime gone"),
}


@pytest.mark.parametrize("state", STATES)
def test_each_state_is_shown_by_ls_diff_and_json(tp: Tp, lab: Path, state: str) -> None:
    change, code, words = STATES[state]
    edit(lock_of(lab), change)
    (item,) = tp("ls", "--json").json["items"]
    assert (item["state"], item["lock"]) == (state, code)
    assert tp("ls").out.splitlines()[1].endswith(words)
    exit_code = 0 if state == "current" else 1
    shown = tp("recipe", "diff", "first", "--json", code=exit_code).json
    assert shown["state"] == state
    assert [refusal["code"] for refusal in shown["refusals"]][:1] == ([code] if code else [])
    assert words in tp("recipe", "diff", "first", code=exit_code).out
    if code:
        assert f"[{code}]" in tp("validate", "first", code=3).err


def test_a_swapped_method_is_seen_and_never_locked_by_guessing(tp: Tp, lab: Path) -> None:
    edit(lock_of(lab), swap_method)
    before = lock_of(lab).read_bytes()
    refused = tp("validate", "first", code=3).err
    assert "it names trl/dpo, and its digest is that of trl/sft" in refused
    assert "tp recipe lock first --method trl/sft" in refused
    assert "[lock-tampered]" in tp("recipe", "lock", "first", code=3).err
    assert "[lock-tampered]" in tp("recipe", "upgrade", "first", "--yes", code=3).err
    assert lock_of(lab).read_bytes() == before
    tp("recipe", "lock", "first", "--method", "trl/sft")
    assert tp("validate", "first").code == 0


def test_lock_all_locks_every_experiment_it_can_and_names_the_others(tp: Tp, lab: Path) -> None:
    for name in ("second", "third"):
        tp("new", name, "--method", "trl/dpo")
    edit(lock_of(lab), foreign)
    edit(lock_of(lab, "second"), swap_method)
    lock_of(lab, "third").unlink()
    edit(lock_of(lab, "second"), lambda lock: lock["recipe"].update(name="trl/sft"))
    answer = tp("recipe", "lock", "--all", "--json", code=3)
    assert [(item["experiment"], item["state"]) for item in answer.json["items"]] == [("first", "foreign")]
    assert {item["code"] for item in answer.problem["refusals"]} == {"lock-tampered", "lock-missing"}
    assert [item["state"] for item in tp("ls", "--json").json["items"]] == ["current", "tampered", "missing"]


def test_upgrade_shows_asks_and_writes(tp: Tp, lab: Path) -> None:
    tp("new", "second", "--method", "trl/dpo")
    edit(lock_of(lab), of_another_catalog)
    before = tree(lab)
    shown = tp("recipe", "upgrade", "--all", "--dry-run")
    assert "recipe.manifest_digest: aaaaaaaaaaaa → " in shown.out
    assert "nothing was written" in shown.out
    assert "--yes" in tp("recipe", "upgrade", "--all", code=2).err  # nobody to ask
    assert tree(lab) == before
    items = tp("recipe", "upgrade", "--all", "--yes", "--json").json["items"]
    assert [(item["experiment"], item["written"], item["unchanged"]) for item in items] == [
        ("first", True, False),
        ("second", False, True),
    ]
    assert tp("validate", "--all").code == 0
    assert [name for name, content in tree(lab).items() if content != before[name]] == ["experiments/first/recipe.lock.json"]  # fmt: skip


def test_upgrade_moves_to_the_runtime_of_now_and_lock_keeps_the_old_one(
    tp: Tp, lab: Path, house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = json.loads((index.CATALOG / "trl/schema-1.16.json").read_bytes())
    schema["version"] = "1.17"
    tp("new", "ours", "--method", "trl/acme-sft")
    (house / "trl/schema-1.17.json").write_text(json.dumps(schema))
    write_recipe(house, runtime={"default_version": "1.17", "versions": {"1.17": {"runtime_id": "trl-1.17"}}})
    index.forget()
    assert tp("ls", "--json").json["items"][1]["state"] == "runtime-changed"
    tp("recipe", "lock", "ours")
    assert json.loads(lock_of(lab, "ours").read_text())["framework"]["version"] == "1.16"
    assert tp("recipe", "diff", "ours").code == 0
    assert "framework.version: 1.16 → 1.17" in tp("recipe", "upgrade", "ours", "--dry-run").out
    tp("recipe", "upgrade", "ours", "--yes")
    assert json.loads(lock_of(lab, "ours").read_text())["framework"]["version"] == "1.17"
    assert tp("validate", "ours").code == 0


def test_what_the_new_recipe_would_refuse_keeps_its_lock(tp: Tp, lab: Path) -> None:
    edit(lock_of(lab), of_another_catalog)
    (lab / "experiments/first/config.yaml").write_text("learning_rate: fast\n")
    before = tree(lab)
    answer = tp("recipe", "upgrade", "first", "--yes", code=3)
    assert "not upgraded" in answer.out
    assert "[param-type]" in answer.err
    assert "config.yaml:1" in answer.err
    assert tree(lab) == before


def test_compile_checks_a_directory_and_writes_nothing(tp: Tp, house: Path) -> None:
    before = tree(house)
    found = tp("recipe", "compile", str(house), "--json").json["items"]
    assert [item["digest"] for item in found] == [index.entry("trl/acme-sft")["digest"]]
    assert found[0]["digest"] in tp("recipe", "compile", str(house)).out
    assert tree(house) == before
    write_recipe(house, SCRIPT, nonsense=1)
    refused = tp("recipe", "compile", str(house), code=3).err
    assert "custom/acme-script/recipe.yaml" in refused
    assert "nonsense" in refused
    assert "[recipe-invalid]" in tp("ls" if Path("tuneplane.yaml").exists() else "methods", code=3).err


def test_an_organisations_method_is_used_like_any_other(tp: Tp, lab: Path, house: Path) -> None:
    tp("new", "ours", "--method", "trl/acme-sft")
    assert tp("validate", "ours").out == "ours: valid (trl/acme-sft)\n"
    assert str(house) in tp("methods", "trl/acme-sft").out
    assert "acme-sft" in tp("methods").out
    plan = tp("submit", "ours", "--profile", "cpu", "--dry-run", "--json").json["plan"]
    assert json.loads(plan["files"]["config.json"])["learning_rate"] == 1e-05


def without_it(console: ScriptedConsole) -> None:
    console.methods.pop("trl/acme-sft", None)
    console.info["catalog_digest"] = "0" * 64


def test_a_console_without_the_recipe_is_named_before_anything_is_sent(
    tp: Tp, lab: Path, house: Path, signed_in: ScriptedConsole
) -> None:
    signed_in.expect_packages()
    without_it(signed_in)
    tp("new", "ours", "--method", "trl/acme-sft")
    refused = tp("submit", "ours", "--profile", "cpu", code=3).err
    assert f"the console has no recipe trl/acme-sft, which this client has from {house}" in refused
    assert f"tp recipe publish {house}" in refused
    assert signed_in.packages == {}
    assert signed_in.submitted == []


def test_a_client_without_the_recipe_is_told_how_to_get_it(
    tp: Tp, lab: Path, house: Path, signed_in: ScriptedConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_in.expect_packages()
    tp("new", "ours", "--method", "trl/acme-sft")
    monkeypatch.setenv(index.RECIPE_PATH_VARIABLE, "")
    index.forget()
    refused = tp("submit", "ours", "--profile", "cpu", code=3).err
    assert "the console has the recipe trl/acme-sft, and this client does not" in refused
    assert "tp recipe fetch" in refused
    assert signed_in.packages == {}


def test_another_recipe_of_the_name_on_the_console_is_refused_once(
    tp: Tp, lab: Path, house: Path, signed_in: ScriptedConsole
) -> None:
    signed_in.expect_packages()
    tp("new", "ours", "--method", "trl/acme-sft")
    signed_in.methods["trl/acme-sft"]["digest"] = "9" * 64
    signed_in.info["catalog_digest"] = "0" * 64
    refused = tp("submit", "ours", "--profile", "cpu", code=3).err
    assert "the server has 3.1 (999999999999)" in refused
    assert "the organisation's recipes of both sides" in refused
    assert signed_in.packages == {}
    tp("submit", "first", "--profile", "cpu")  # what is the same on both sides goes on


def test_recipes_are_published_and_fetched(
    tp: Tp, house: Path, signed_in: ScriptedConsole, tmp_path: Path
) -> None:  # fmt: skip
    taken: list[dict[str, str]] = []

    def organisation(request: Any) -> Any:
        if request.method == "PUT":
            taken.append(json.loads(request.body)["files"])
            return as_json({"digest": "0" * 64, "methods": signed_in.methods})
        return as_json({"files": taken[-1] if taken else {}})

    signed_in.server.answers[f"{API}/organisation/recipes"] = organisation
    assert "[not-found]" in tp("recipe", "fetch", str(tmp_path / "copy"), code=3).err
    assert "--yes" in tp("recipe", "publish", str(house), code=2).err
    assert taken == []
    assert "trl/acme-sft" in tp("recipe", "publish", str(house), "--yes").out
    assert {name: base64.b64decode(text) for name, text in taken[0].items()} == tree_of(house)
    tp("recipe", "fetch", str(tmp_path / "copy"))
    assert tree_of(tmp_path / "copy") == tree_of(house)
    assert "[conflict]" in tp("recipe", "fetch", str(tmp_path / "copy"), code=3).err
    taken.append({"../../x/y": "", **taken[0]})
    assert "[recipe-invalid]" in tp("recipe", "fetch", str(tmp_path / "other"), code=3).err
    assert not (tmp_path / "other").exists()
    assert SFT["name"] in tp("recipe", "compile", str(tmp_path / "copy")).out
