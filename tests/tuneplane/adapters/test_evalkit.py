"""The evalkit adapter's command: one process with the configuration as a file, on one machine."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tuneplane.adapters.capsules import trl_capsule
from tuneplane import adapters
from tuneplane.adapters import AdapterError, Machine


def evalkit_capsule(config: dict[str, Any] | None = None, cpus: int | None = None) -> dict[str, Any]:
    capsule = trl_capsule(config, {"learning_rate": 3}, cpus)
    capsule["jobspec"]["spec"]["framework"] = {"kind": "evalkit", "version": "1.0"}
    capsule["recipe"]["entrypoint"] = {"kind": "experiment", "value": "eval.py"}
    capsule["recipe"]["adapter_options"] = {"config_mode": "flat", "fixed": {"samples": 0}}
    return capsule


def test_the_script_gets_its_configuration_as_a_file() -> None:
    command = adapters.compile(
        evalkit_capsule({"tasks": ["a b", "$HOME"], "samples": 9}),
        Machine(gpus_per_node=8, python="/py", work_dir="/w"),
    )
    assert command.argv == ("/py", "eval.py", "--config", "/w/config.json")
    assert json.loads(command.files["config.json"]) == {"tasks": ["a b", "$HOME"], "samples": 0, "learning_rate": 3}
    assert command.env == {"PYTHONUNBUFFERED": "1"}


def test_on_cpus_no_card_is_seen() -> None:
    command = adapters.compile(evalkit_capsule(cpus=2), Machine())
    assert (command.env["CUDA_VISIBLE_DEVICES"], command.env["OMP_NUM_THREADS"]) == ("", "2")


def test_several_machines_are_refused() -> None:
    with pytest.raises(AdapterError, match="on one machine, not on 4"):
        adapters.compile(evalkit_capsule(), Machine(count=4))
