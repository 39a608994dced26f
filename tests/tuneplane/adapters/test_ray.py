"""The command of each machine of a Ray job. CPython 3.9 and the standard library. The script runs a real Ray in tests/catalog/verl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tuneplane.adapters import LogHint, Machine
from tuneplane.adapters.ray import ray_command
from tuneplane.adapters.ray_script import SCRIPT

CAPSULE = {"jobspec": {"metadata": {"name": "first"}}}
DRIVER = ("python3", "-m", "trainer", "a 'b' $c\n")


def machine(rank: int, count: int) -> Machine:
    return Machine(
        rank=rank, count=count, gpus_per_node=8, main_ip="10.0.0.5", main_port=29555, python="/py", work_dir="/w"
    )


def test_one_machine_runs_the_driver_with_a_cluster_of_its_own() -> None:
    command = ray_command(
        CAPSULE, machine(0, 1), DRIVER, files={"a": "b"}, env={"C": "d"}, log_hints=(LogHint("jsonl", "m"),)
    )
    assert command.argv == DRIVER
    assert command.cwd_relative == "lab/experiments/first"
    assert command.env["RAY_ADDRESS"] == "local"  # not the cluster of another job on this machine
    assert (command.env["C"], command.files, command.log_hints) == ("d", {"a": "b"}, (LogHint("jsonl", "m"),))


def test_machine_0_starts_the_head_and_passes_the_driver_on_untouched() -> None:
    command = ray_command(CAPSULE, machine(0, 2), DRIVER)
    assert command.argv == ("sh", "/w/ray.sh", "/py", "0", "2", "8", "10.0.0.5", "29555", "900", *DRIVER)
    assert command.files == {"ray.sh": SCRIPT}
    assert "RAY_ADDRESS" not in command.env


def test_the_other_machines_only_join() -> None:
    command = ray_command(CAPSULE, machine(1, 2), DRIVER, files={"a": "b"})
    assert command.argv == ("sh", "/w/ray.sh", "/py", "1", "2", "8", "10.0.0.5", "29555", "900")
    assert command.files == {"ray.sh": SCRIPT, "a": "b"}


def test_a_driver_that_only_joins_gets_a_head_on_one_machine_too() -> None:
    assert ray_command(CAPSULE, machine(0, 1), DRIVER, head_always=True).argv[:2] == ("sh", "/w/ray.sh")


@pytest.mark.parametrize("shell", ["sh", "dash", "bash"])
def test_the_script_is_posix(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    (tmp_path / "ray.sh").write_text(SCRIPT, encoding="utf-8")
    assert subprocess.run([shell, "-n", str(tmp_path / "ray.sh")], check=False).returncode == 0


def test_nothing_is_ended_by_its_name() -> None:
    assert "ray stop" not in SCRIPT
    assert "pkill" not in SCRIPT
    assert "killall" not in SCRIPT


def test_the_code_of_a_driver_that_fails_at_once_is_kept() -> None:
    """The shell may have noticed its end before it is asked for it; always after another command in the foreground."""
    function = SCRIPT[SCRIPT.index("await() {") :]
    function = function[: function.index("\n}\n") + 3]
    tries = "n=0; while [ $n -lt 60 ]; do n=$((n+1)); (exit 7) & p=$!; [ $((n % 2)) = 0 ] || /bin/true; await $p; echo $code; done"
    done = subprocess.run(["sh", "-c", function + tries], stdout=subprocess.PIPE, timeout=60, check=True)
    assert done.stdout.split() == [b"7"] * 60


@pytest.mark.parametrize(("address", "head"), [("10.0.0.5", b"10.0.0.5:6379"), ("fd00::1", b"[fd00::1]:6379")])
def test_the_head_is_named_as_addresses_are_written(address: str, head: bytes) -> None:
    (line,) = (line for line in SCRIPT.splitlines() if line.startswith("case $address"))
    written = f'address={address} port=6379\n{line}\nprintf %s "$head"'
    assert subprocess.run(["sh", "-c", written], stdout=subprocess.PIPE, timeout=60, check=True).stdout == head
