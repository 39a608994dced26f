"""The launcher's part of a command. CPython 3.9 and the standard library; torchrun itself is asked in tests/training."""

from __future__ import annotations

import pytest

from tests.tuneplane.adapters.capsules import trl_capsule
from tuneplane.adapters.command import LogHint, Machine
from tuneplane.adapters.torchrun import torchrun_argv, torchrun_env, torchrun_hints

ODD = ["--empty", "", "--text", " $HOME\n'\"", "--nnodes=9", "-m", "--=", "训练 🚀"]


def options(argv: list[str]) -> dict[str, str]:
    return dict(part[2:].split("=", 1) for part in argv if part.startswith("--") and "=" in part)


@pytest.mark.parametrize(
    ("gpus", "count", "asked", "local"),
    [(0, 1, None, 1), (0, 1, 2, 2), (1, 1, None, 1), (8, 1, None, 8), (8, 2, None, 8), (0, 2, None, 1), (8, 1, 4, 4)],
)
def test_one_process_per_card_and_one_on_a_cpu_pool(gpus: int, count: int, asked: int | None, local: int) -> None:
    machine = Machine(rank=count - 1, count=count, gpus_per_node=gpus, main_ip="10.0.0.5", main_port=29555)
    found = options(torchrun_argv(machine, ["train.py"], out_dir="/out", processes=asked))
    assert found["nnodes"] == str(count)
    assert found["nproc_per_node"] == str(local)
    assert found["node_rank"] == str(count - 1)
    assert (found["master_addr"], found["master_port"], found["rdzv_backend"]) == ("10.0.0.5", "29555", "static")


def test_the_program_follows_untouched() -> None:
    machine = Machine(python="/opt/py/bin/python")
    argv = torchrun_argv(machine, ["swift.cli.sft", *ODD], out_dir="/out", module=True)
    assert argv[:3] == ["/opt/py/bin/python", "-m", "torch.distributed.run"]
    assert argv[-len(ODD) - 2 :] == ["--module", "swift.cli.sft", *ODD]
    assert torchrun_argv(machine, ["train.py", *ODD], out_dir="/out")[-len(ODD) - 2] == "--tee=0"


def test_on_one_machine_the_other_ranks_write_files() -> None:
    machine = Machine(gpus_per_node=3)
    found = options(torchrun_argv(machine, ["train.py"], out_dir="/out dir"))
    assert (found["redirects"], found["tee"], found["log_dir"]) == ("1:3,2:3", "0", "/out dir/ranks")
    assert torchrun_hints(machine) == (LogHint("ranks", "ranks"),)


def test_on_several_machines_they_print_too() -> None:
    found = options(torchrun_argv(Machine(rank=1, count=2, gpus_per_node=2), ["train.py"], out_dir="/out"))
    assert (found["redirects"], found["tee"], found["log_dir"]) == ("0", "1:3", "/out/ranks/machine-1")


def test_more_ranks_than_torchrun_can_name_all_write_files() -> None:
    assert options(torchrun_argv(Machine(gpus_per_node=16), ["train.py"], out_dir="/out"))["redirects"] == "3"


def test_a_single_process_prints() -> None:
    assert options(torchrun_argv(Machine(), ["train.py"], out_dir="/out"))["redirects"] == "0"
    assert torchrun_hints(Machine()) == ()


def test_some_machines_of_the_job() -> None:
    machine = Machine(rank=2, count=3, gpus_per_node=1)
    found = options(torchrun_argv(machine, ["train.py"], out_dir="/out", machines=(0, 1)))
    assert (found["nnodes"], found["node_rank"], found["log_dir"]) == ("1", "0", "/out/ranks")


def test_an_ipv6_address_is_in_brackets() -> None:
    assert options(torchrun_argv(Machine(main_ip="fd00::5"), ["a.py"], out_dir="/out"))["master_addr"] == "[fd00::5]"


def test_the_processes_share_the_cpus_and_see_no_card() -> None:
    env = torchrun_env(trl_capsule(cpus=6), Machine(), 2)
    assert env["OMP_NUM_THREADS"] == "3"
    assert env["CUDA_VISIBLE_DEVICES"] == ""
    assert torchrun_env(trl_capsule(cpus=1), Machine(), 4)["OMP_NUM_THREADS"] == "1"
    assert set(torchrun_env(trl_capsule(), Machine())) >= {"PYTHONUNBUFFERED", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"}


def test_a_gpu_job_keeps_what_the_executor_shows_it() -> None:
    env = torchrun_env(trl_capsule(cpus=6, gpus=2), Machine(gpus_per_node=2))
    assert "CUDA_VISIBLE_DEVICES" not in env
    assert "OMP_NUM_THREADS" not in env


def test_the_processes_get_the_grace_of_the_job() -> None:
    capsule = trl_capsule()
    assert torchrun_env(capsule, Machine())["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == "30"
    capsule["jobspec"]["spec"]["limits"] = {"grace": 900}
    assert torchrun_env(capsule, Machine())["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == "900"


def test_no_process_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="0 processes"):
        torchrun_argv(Machine(), ["train.py"], out_dir="/out", processes=0)
