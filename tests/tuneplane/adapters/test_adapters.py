"""From a capsule and a machine to what is started: command, environment, files. CPython 3.9 and the standard library."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.adapters.capsules import custom_capsule, trl_capsule
from tuneplane import adapters
from tuneplane.adapters import AdapterError, Machine

ODD = {
    "spaces": " a b ",
    "quotes": "'single' \"double\"",
    "dollar": "$HOME ${HOME} $(id)",
    "equals": "a=b==c",
    "newlines": "one\ntwo\r\n\tthree",
    "unicode": "训练 é 🚀 \u2028 \x85 \x7f",
    "empty": "",
    "backslash": "C:\\new\\table",
}


def config_of(command: adapters.Command) -> dict[str, Any]:
    return json.loads(command.files["config.json"])


def test_one_process_runs_the_script_without_a_launcher() -> None:
    command = adapters.compile(trl_capsule(), Machine(python="/opt/py/bin/python", work_dir="/tmp/w"))
    assert command.argv == ("/opt/py/bin/python", "train.py", "--config", "/tmp/w/config.json")
    assert command.cwd_relative == "lab/experiments/first"


def test_the_configuration_is_the_experiments_then_set_values_then_fixed_then_the_platforms() -> None:
    capsule = trl_capsule(
        {"learning_rate": 1.0, "report_to": "wandb", "output_dir": "/elsewhere", "max_length": None},
        {"learning_rate": 2.0, "size": 3},
    )
    assert config_of(adapters.compile(capsule, Machine())) == {
        "learning_rate": 2.0,
        "report_to": "none",
        "output_dir": "/srv/jobs/0/out/checkpoints",
        "max_length": None,
        "model": {"size": 3},
    }


def test_the_capsule_is_not_changed() -> None:
    capsule = trl_capsule({"model": {"size": 1}}, {"size": 3})
    before = copy.deepcopy(capsule)
    adapters.compile(capsule, Machine())
    assert capsule == before


def test_odd_values_arrive_intact_in_the_file() -> None:
    config = config_of(adapters.compile(trl_capsule({"texts": ODD}), Machine()))
    assert config["texts"] == ODD


@pytest.mark.parametrize(
    ("gpus", "count", "total"),
    [(2, 1, 2), (8, 1, 8), (8, 2, 16), (0, 2, 2), (1, 3, 3)],
)
def test_several_processes_meet_through_the_launcher(gpus: int, count: int, total: int) -> None:
    machine = Machine(rank=count - 1, count=count, gpus_per_node=gpus, main_ip="10.0.0.5", main_port=29555)
    argv = adapters.compile(trl_capsule(gpus=gpus), machine).argv
    assert argv[:3] == ("python3", "-m", "accelerate.commands.launch")
    assert {
        "--multi_gpu",
        f"--num_processes={total}",
        f"--num_machines={count}",
        f"--machine_rank={count - 1}",
        "--main_process_ip=10.0.0.5",
        "--main_process_port=29555",
    } <= set(argv)
    assert argv[-3:] == ("train.py", "--config", "$TUNEPLANE_WORK_DIR/config.json")


def test_a_cpu_job_sees_no_card_and_takes_the_cpus_it_asked_for() -> None:
    env = adapters.compile(trl_capsule(cpus=6), Machine()).env
    assert env == {"PYTHONUNBUFFERED": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "6"}


def test_a_gpu_job_keeps_what_the_executor_shows_it() -> None:
    assert adapters.compile(trl_capsule(cpus=6, gpus=1), Machine(gpus_per_node=1)).env == {"PYTHONUNBUFFERED": "1"}


def test_the_cpus_are_those_of_the_pool_that_trains() -> None:
    capsule = trl_capsule(cpus=2)
    pools = capsule["jobspec"]["spec"]["resources"]["pools"]
    pools.insert(0, {"name": "rollout", "series": "cpu", "nodes": 1, "gpus_per_node": 0, "cpus": 9})
    capsule["jobspec"]["spec"]["resources"]["roles"] = {"train": "main", "rollout": "rollout"}
    assert adapters.compile(capsule, Machine()).env["OMP_NUM_THREADS"] == "2"


def test_custom_runs_train_sh_and_writes_nothing() -> None:
    command = adapters.compile(custom_capsule(), Machine())
    assert command.argv == ("sh", "train.sh")
    assert command.files == {}
    assert command.cwd_relative == "lab/experiments/first"


def test_the_rank_and_the_size_must_fit() -> None:
    with pytest.raises(ValueError, match="rank 2 of 2"):
        Machine(rank=2, count=2)
    with pytest.raises(ValueError, match="main_port"):
        Machine(main_port=0)


def test_an_unknown_framework_falls_back_to_nothing() -> None:
    capsule = custom_capsule()
    capsule["jobspec"]["spec"]["framework"]["kind"] = "of-tomorrow"
    with pytest.raises(AdapterError, match="no adapter for framework 'of-tomorrow'") as caught:
        adapters.compile(capsule, Machine())
    assert caught.value.code == "runner-failed"


def test_a_hyperparameter_without_a_path_is_refused() -> None:
    with pytest.raises(AdapterError, match="no parameter 'beta'"):
        adapters.compile(trl_capsule(hyperparams={"beta": 1}), Machine())


def test_an_entry_point_of_another_kind_is_refused() -> None:
    capsule = trl_capsule()
    capsule["recipe"]["entrypoint"] = {"kind": "module", "value": "trl.scripts.sft"}
    with pytest.raises(AdapterError, match="entry point of kind 'module'"):
        adapters.compile(capsule, Machine())


def test_the_command_starts_what_it_says(tmp_path: Path) -> None:
    """The command's parts, used as the runner uses them, reach a real script with every value as it was."""
    experiment = tmp_path / "lab/experiments/first"
    experiment.mkdir(parents=True)
    (experiment / "train.py").write_text(
        "import json, sys\nprint(json.dumps(json.load(open(sys.argv[2], encoding='utf-8')), sort_keys=True))\n"
    )
    command = adapters.compile(trl_capsule({"texts": ODD}), Machine(python=sys.executable, work_dir=str(tmp_path)))
    for name, text in command.files.items():
        (tmp_path / name).write_bytes(text.encode("utf-8"))
    done = subprocess.run(command.argv, cwd=str(tmp_path / command.cwd_relative), stdout=subprocess.PIPE, check=True)
    assert json.loads(done.stdout)["texts"] == ODD


def test_a_stop_has_the_jobs_whole_grace_under_accelerate() -> None:
    capsule = trl_capsule(gpus=2)
    capsule["jobspec"]["spec"]["limits"] = {"grace": 600}
    assert adapters.compile(capsule, Machine(gpus_per_node=2)).env["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == "600"
