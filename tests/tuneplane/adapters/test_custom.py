"""custom/custom runs train.sh and nothing else, and no other adapter ever falls back to it. CPython 3.9 and the standard library."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.adapters.capsules import custom_capsule
from tuneplane import adapters
from tuneplane.adapters import AdapterError, Command, Machine

ROOM = Path(adapters.__file__).parent
OTHERS = sorted(set(adapters.FRAMEWORKS) - {"custom"})


@pytest.mark.parametrize(
    "machine",
    [
        Machine(),
        Machine(gpus_per_node=8, python="/opt/python", work_dir="/w"),
        Machine(rank=3, count=4, gpus_per_node=8, main_ip="10.0.0.5", main_port=1234),
    ],
)
@pytest.mark.parametrize("config", [{}, {"learning_rate": 0.1, "model_name_or_path": "x", "launcher": "torchrun"}])
def test_nothing_but_the_script_whatever_the_job_is(machine: Machine, config: dict[str, Any]) -> None:
    """No launcher, no arguments, no file, no variable that would change what the script sees: not even which cards there are."""
    capsule = custom_capsule()
    capsule["jobspec"]["spec"]["config"] = config
    assert adapters.compile(capsule, machine) == Command(
        argv=("sh", "train.sh"), cwd_relative="lab/experiments/first", env={"PYTHONUNBUFFERED": "1"}
    )


def test_the_recipes_hints_are_all_that_is_followed() -> None:
    capsule = custom_capsule()
    capsule["recipe"]["adapter_options"]["log_hints"] = [{"kind": "jsonl", "path": "metrics.jsonl"}]
    command = adapters.compile(capsule, Machine())
    assert [(hint.kind, hint.path) for hint in command.log_hints] == [("jsonl", "metrics.jsonl")]


def test_an_entry_point_that_is_no_file_of_the_experiment_is_refused() -> None:
    capsule = custom_capsule()
    capsule["recipe"]["entrypoint"] = {"kind": "module", "value": "os"}
    with pytest.raises(AdapterError, match="entry point of kind 'module'"):
        adapters.compile(capsule, Machine())


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("entrypoint", [{"kind": "nonsense", "value": "x"}, {"kind": "file", "value": ""}])
def test_what_another_adapter_cannot_run_is_not_run_as_a_script(kind: str, entrypoint: dict[str, str]) -> None:
    """A capsule that makes no sense to it ends in an error or in the framework's own command, never in `sh train.sh`."""
    capsule = custom_capsule()
    capsule["jobspec"]["spec"]["framework"]["kind"] = kind
    capsule["recipe"]["entrypoint"] = entrypoint
    try:
        command = adapters.compile(capsule, Machine())
    except (AdapterError, LookupError):
        return
    assert command.argv[0] != "sh" or "train.sh" not in command.argv
    assert "train.sh" not in " ".join([*command.argv, *command.files.values()])


@pytest.mark.parametrize("kind", ["", "Custom", "custom/custom", "trl2", None])
def test_an_unknown_framework_is_refused(kind: Any) -> None:
    capsule = custom_capsule()
    capsule["jobspec"]["spec"]["framework"]["kind"] = kind
    with pytest.raises(AdapterError, match="no adapter for framework"):
        adapters.compile(capsule, Machine())


def test_no_other_adapter_knows_of_it() -> None:
    """Neither its module nor its script is named anywhere else in the room: what nobody names, nobody falls back to."""
    for path in sorted(ROOM.rglob("*.py")):
        if path.name in ("custom.py", "__init__.py"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for alias in node.names
        }
        modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        words = {
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        assert "custom" not in imported | words, path
        assert "tuneplane.adapters.custom" not in modules | imported, path
        assert not any("train.sh" in word for word in words), path
