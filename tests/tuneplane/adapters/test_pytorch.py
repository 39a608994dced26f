"""The PyTorch adapter's command: torchrun on every machine, the configuration as one file, the platform's places."""

from __future__ import annotations

import json
from typing import Any

from tests.tuneplane.adapters.capsules import trl_capsule
from tuneplane import adapters
from tuneplane.adapters import Machine


def pytorch_capsule(config: dict[str, Any] | None = None, cpus: int | None = None, gpus: int = 0) -> dict[str, Any]:
    capsule = trl_capsule(config, {"learning_rate": 0.5}, cpus, gpus)
    capsule["jobspec"]["spec"]["framework"] = {"kind": "pytorch", "version": "2.14"}
    capsule["recipe"]["adapter_options"] = {"launcher": "torchrun", "config_mode": "flat"}
    return capsule


def test_the_script_runs_under_torchrun_with_the_configuration_as_a_file() -> None:
    command = adapters.compile(
        pytorch_capsule({"seed": 1, "options": {"a": "b c"}}, gpus=8),
        Machine(rank=1, count=2, gpus_per_node=8, main_ip="10.0.0.5", python="/py", work_dir="/w"),
    )
    assert command.argv[:3] == ("/py", "-m", "torch.distributed.run")
    assert {"--nnodes=2", "--nproc_per_node=8", "--node_rank=1", "--master_addr=10.0.0.5"} <= set(command.argv)
    assert command.argv[-3:] == ("train.py", "--config", "/w/config.json")
    assert command.cwd_relative == "lab/experiments/first"
    assert json.loads(command.files["config.json"]) == {"seed": 1, "options": {"a": "b c"}, "learning_rate": 0.5}


def test_on_cpus_no_card_is_seen_and_one_process_has_them_all() -> None:
    command = adapters.compile(pytorch_capsule(cpus=4), Machine())
    assert command.env["CUDA_VISIBLE_DEVICES"] == ""
    assert command.env["OMP_NUM_THREADS"] == "4"
    assert command.log_hints == ()


def test_the_output_of_the_other_processes_is_followed() -> None:
    command = adapters.compile(pytorch_capsule(gpus=2), Machine(gpus_per_node=2))
    assert [(hint.kind, hint.path) for hint in command.log_hints] == [("ranks", "ranks")]
