"""`tp init, new, ls, validate, methods, recipe`: the way through a lab, and every bad input with one clear message and exit code 3."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.cli.conftest import Answer, Tp, tree
from tuneplane.recipes.index import catalog_digest, methods

CONFIG = "experiments/first/config.yaml"
LOCK = "experiments/first/recipe.lock.json"


def refused(answer: Answer) -> str:
    """The message of a refusal, which is all that was written."""
    assert answer.out == ""
    assert answer.err.startswith("refused")
    return answer.err


def test_from_nothing_to_a_valid_experiment(tp: Tp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "tp new" in tp("init", "my-lab").out
    monkeypatch.chdir(tmp_path / "my-lab")
    assert "tp validate first" in tp("new", "first", "--method", "trl/sft").out
    assert tp("validate", "first").out == "first: valid (trl/sft)\n"
    assert tp("ls").out.splitlines()[1].split() == ["first", "trl/sft", "1.0", "trl", "1.16", "current"]
    monkeypatch.chdir(tmp_path / "my-lab/experiments/first/data")
    assert "valid" in tp("validate").out


def test_json_of_every_listing(tp: Tp, lab: Path) -> None:
    assert tp("ls", "--json").json["items"][0] == {
        "name": "first", "method": "trl/sft", "version": "1.0", "framework": "trl 1.16", "lock": "", "state": "current",
    }  # fmt: skip
    methods = tp("methods", "--json").json
    assert methods["catalog_digest"] == catalog_digest()
    assert {item["name"] for item in methods["items"]} >= {"trl/sft", "custom/custom"}
    assert tp("methods", "trl/sft", "--json").json["manifest"]["params"]["learning_rate"]["type"] == "float"
    assert tp("validate", "first", "--json").json["items"][0]["valid"] is True
    assert tp("recipe", "diff", "first", "--json").json == {
        "state": "current", "method": "trl/sft", "refusals": [], "client": [],
    }  # fmt: skip
    assert tp("recipe", "lock", "first", "--json").json["items"][0]["unchanged"] is True
    assert "experiments/second/train.py" in tp("new", "second", "--method", "trl/dpo", "--json").json["written"]


def test_methods_are_listed_and_shown(tp: Tp) -> None:
    assert tp("methods", "list").out == tp("methods").out
    assert "trl/" not in tp("methods", "--framework", "custom").out
    assert "did you mean “trl”?" in refused(tp("methods", "--framework", "trll", code=3))
    lines = tp("methods").out.splitlines()
    assert [line for line in lines if line and not line.startswith(" ")] == sorted(
        {f"{item['framework']} {item['framework_version']}" for item in tp("methods", "--json").json["items"]}
    )
    assert len([line for line in lines if line.startswith("  ")]) == len(methods())


@pytest.mark.parametrize(
    ("words", "found", "absent"),
    [
        (("sft",), "trl/sft", "trl/grpo"),
        (("preference", "TRL"), "trl/dpo", "trl/sft"),
        (("偏好",), "trl/dpo", "trl/sft"),
        (("list", "reward"), "trl/rm", "custom/custom"),
    ],
)
def test_methods_are_found_by_words(tp: Tp, words: tuple[str, ...], found: str, absent: str) -> None:
    names = [item["name"] for item in tp("methods", *words, "--json").json["items"]]
    assert found in names
    assert absent not in names
    assert f"  {found} " in tp("methods", *words).out


def test_words_that_no_method_has_name_the_nearest(tp: Tp) -> None:
    assert "did you mean “trl/grpo”?" in refused(tp("methods", "trl-grpo", code=3))
    assert "tp methods" in refused(tp("methods", "zzzz", "sft", code=3))
    shown = tp("methods", "show", "trl/grpo")
    assert shown.out == tp("methods", "trl/grpo").out
    assert "learning_rate" in shown.out
    assert max(len(line) for line in shown.out.splitlines()) < 140


@pytest.mark.parametrize("command", [("ls",), ("validate", "x"), ("new", "x", "--method", "trl/sft"), ("submit", "x"), ("recipe", "diff", "x"), ("recipe", "lock", "x")], ids=" ".join)  # fmt: skip
def test_outside_of_a_lab_the_way_to_one_is_told(tp: Tp, command: tuple[str, ...], tmp_path: Path) -> None:
    before = tree(tmp_path)
    assert "tp init" in refused(tp(*command, code=3))
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("name: [\n", "tuneplane.yaml:2"),
        ("apiVersion: tuneplane/project/v1\n", "tuneplane.yaml:1"),
        ("apiVersion: tuneplane/project/v1\nname:\n", "tuneplane.yaml:2"),
        ("apiVersion: tuneplane/project/v1\nname: a b\n", "tuneplane.yaml:2"),
        ("", "tuneplane.yaml:1"),
        ("\x00", "tuneplane.yaml"),
    ],
)
@pytest.mark.parametrize("command", [("ls",), ("validate", "first"), ("submit", "first"), ("status",), ("job", "ls")], ids=" ".join)  # fmt: skip
def test_a_broken_marker_is_refused_with_file_and_line(
    tp: Tp, lab: Path, command: tuple[str, ...], text: str, place: str
) -> None:
    (lab / "tuneplane.yaml").write_text(text)
    assert place in refused(tp(*command, code=3))


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("learning_rate: fast", "param-type", "fast"),
        ("learning_rate: -1", "param-range", "at least 0"),
        ("learning_rat: 1e-4", "param-unknown", "learning_rate"),
        ("max_steps: 1.5", "param-type", "1.5"),
        ("lr_scheduler_type: cosin", "param-choice", "cosine"),
        ("output_dir: /tmp/x", "key-platform-owned", "platform"),
        ("model_name_or_path: gpt2", "key-platform-owned", "tp submit --model"),
        ("learning_rate: .nan", "number-not-finite", ".nan"),
        ("learning_rate: .inf", "number-not-finite", ".inf"),
        ("learning_rate: 1e400", "number-not-finite", "1e400"),
        ("data: {train: {dataset: chats}}", "config-invalid", "@<version>"),
        ("eval: {gates: [{metric: x, mn: 1}]}", "param-unknown", "min"),
        ("defaults: [configs/none.yaml]", "file-missing", "configs/none.yaml"),
        ("defaults: [config.yaml]", "config-cycle", "circle"),
        ("seed: 1\nseed: 2", "yaml-invalid", "twice"),
    ],
)
def test_a_wrong_config_is_refused_with_file_line_and_what_to_write(
    tp: Tp, lab: Path, line: str, code: str, words: str
) -> None:
    (lab / CONFIG).write_text(f"# one\n# two\n{line}\n")
    text = refused(tp("validate", "first", code=3))
    assert f"{CONFIG}:{4 if 'seed' in line else 3}" in text
    assert f"[{code}]" in text
    assert words in text
    answer = tp("validate", "first", "--json", code=3)
    assert answer.problem["refusals"][0]["code"] == code
    assert answer.json["items"][0]["valid"] is False


def test_every_problem_of_an_experiment_is_told_at_once(tp: Tp, lab: Path) -> None:
    (lab / CONFIG).write_text("learning_rat: 1\nmax_steps: x\noutput_dir: y\n")
    (lab / "experiments/first/train.py").unlink()
    answer = tp("validate", "first", "--set", "seed=x", "--json", code=3)
    assert [item["code"] for item in answer.problem["refusals"]] == [
        "file-missing", "param-unknown", "param-type", "key-platform-owned", "param-type",
    ]  # fmt: skip
    assert "refused, for 5 reasons" in tp("validate", "first", "--set", "seed=x", code=3).err


def edit(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    def apply(path: Path) -> None:
        lock = json.loads(path.read_text())
        change(lock)
        path.write_text(json.dumps(lock))

    return apply


BROKEN_LOCKS = {
    "lock-missing": lambda path: path.unlink(),
    "lock-invalid": lambda path: path.write_text("{"),
    "lock-foreign": lambda path: path.write_text('{"apiVersion": "forge/recipe-lock/v4", "recipe": {"name": "trl/sft"}}'),
    "lock-tampered": edit(lambda lock: lock["bindings"]["params"]["seed"].update(type="float")),
}  # fmt: skip


@pytest.mark.parametrize("code", ["lock-missing", "lock-invalid", "lock-foreign", "lock-tampered"])
def test_a_lock_that_does_not_hold_is_refused_with_the_command_that_mends_it(tp: Tp, lab: Path, code: str) -> None:
    BROKEN_LOCKS[code](lab / LOCK)
    text = refused(tp("validate", "first", code=3))
    assert f"[{code}]" in text
    assert "tp recipe lock first" in text
    assert LOCK in text
    assert tp("ls", "--json").json["items"][0]["lock"] == code
    assert refused(tp("submit", "first", "--profile", "cpu", code=3))
    method = ("--method", "trl/sft") if code in ("lock-missing", "lock-invalid") else ()
    tp("recipe", "lock", "first", *method)
    assert tp("validate", "first").code == 0


def test_a_stale_lock_says_what_changed(tp: Tp, lab: Path) -> None:
    from tuneplane.contract.digests import recipe_digest

    stale = {"version": "0.9", "manifest_digest": "a" * 64, "template_digest": "b" * 64}
    edit(lambda lock: lock["recipe"].update(stale, digest=recipe_digest("a" * 64, "b" * 64)))(lab / LOCK)
    text = refused(tp("validate", "first", code=3))
    assert "[lock-stale]" in text
    assert "recipe.version: 0.9 → 1.0" in text
    assert "0.9" in tp("recipe", "diff", "first", code=1).out
    assert "recipe.version: 0.9 → 1.0" in tp("recipe", "lock", "first").out
    assert tp("recipe", "diff", "first").out == "first: the lock is current\n"


def test_a_lock_of_another_framework_version_is_refused(tp: Tp, lab: Path) -> None:
    edit(lambda lock: lock["framework"].update(version="0.1", runtime_id="trl-0.1"))(lab / LOCK)
    assert "tp recipe lock first" in refused(tp("validate", "first", code=3))
    tp("recipe", "lock", "first")
    assert tp("validate", "first").code == 0


def test_a_lock_without_a_method_asks_for_it(tp: Tp, lab: Path) -> None:
    (lab / LOCK).unlink()
    before = tree(lab)
    assert "tp recipe lock first --method" in refused(tp("validate", "first", code=3))
    assert "--method" in refused(tp("recipe", "lock", "first", code=3))
    assert tree(lab) == before


@pytest.mark.parametrize(("method", "words"), [("trl/stf", "trl/sft"), ("sft", "trl/sft"), ("x/y", "tp methods"), ("", "tp methods"), ("TRL/SFT", "trl/sft")])  # fmt: skip
def test_an_unknown_method_is_refused_with_the_nearest(tp: Tp, lab: Path, method: str, words: str) -> None:
    before = tree(lab)
    assert words in refused(tp("new", "second", "--method", method, code=3))
    assert tree(lab) == before
    if "/" in method:
        assert "[method-unknown]" in refused(tp("methods", method, code=3))


@pytest.mark.parametrize("name", ["实验", "x" * 300, "..", "../x", "a/b", "a b", ".hidden", "", "a..b", "-x", "x\n"])
def test_a_name_that_cannot_be_is_refused_and_nothing_is_written(tp: Tp, lab: Path, name: str) -> None:
    before = tree(lab.parent)
    code = 2 if name.startswith("-") else 3
    answer = tp("new", "--method", "trl/sft", name, code=code)
    assert len(answer.err) < 500
    assert tree(lab.parent) == before
    if code == 3:
        assert "[name-invalid]" in answer.err
    for command in (("validate", name), ("submit", name), ("recipe", "diff", name)):
        if name and not name.startswith("-"):
            assert "name" in refused(tp(*command, code=3))


def test_an_experiment_that_is_there_is_not_overwritten(tp: Tp, lab: Path) -> None:
    before = tree(lab)
    assert "[experiment-exists]" in refused(tp("new", "first", "--method", "trl/dpo", code=3))
    assert tree(lab) == before


def test_an_unknown_experiment_is_refused_with_the_nearest(tp: Tp, lab: Path) -> None:
    assert "did you mean “first”" in refused(tp("validate", "frist", code=3))


def test_a_name_completed_by_the_shell_is_taken(tp: Tp, lab: Path) -> None:
    assert tp("validate", "experiments/first/").code == 0


def test_a_broken_experiment_does_not_hide_the_others(tp: Tp, lab: Path) -> None:
    tp("new", "second", "--method", "trl/dpo")
    (lab / CONFIG).write_text("a: [\n")
    answer = tp("validate", "--all", "--json", code=3)
    assert [(item["name"], item["valid"]) for item in answer.json["items"]] == [("first", False), ("second", True)]


def test_an_init_where_a_lab_is_changes_nothing(tp: Tp, lab: Path) -> None:
    before = tree(lab)
    assert "[conflict]" in refused(tp("init", str(lab), code=3))
    assert "[conflict]" in refused(tp("init", str(lab / "inner"), code=3))
    assert tree(lab) == before
    assert not (lab / "inner").exists()
