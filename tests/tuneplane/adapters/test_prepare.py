"""What lies in place before a trainer starts: done by a real shell, in order, once, and then the program is the process."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.tuneplane.adapters.capsules import trl_capsule
from tuneplane.adapters import Machine
from tuneplane.adapters.prepare import Preparation

ODD = "a 'b' \"c\" $HOME $(id) 训练 -x"


def run(preparation: Preparation, work: Path, program: list[str]) -> subprocess.CompletedProcess[str]:
    argv, files = preparation.wrap(program)
    for name, text in files.items():
        (work / name).write_text(text, encoding="utf-8")
    return subprocess.run(argv, cwd=str(work), capture_output=True, text=True, timeout=60, check=False)


def test_nothing_to_do_is_the_program_alone(tmp_path: Path) -> None:
    assert Preparation(Machine()).wrap(["a", "b"]) == (["a", "b"], {})


def test_only_machine_0_prepares(tmp_path: Path) -> None:
    preparation = Preparation(Machine(rank=1, count=2))
    preparation.copy("/a", "/b")
    assert preparation.wrap(["a"]) == (["a"], {})


def test_a_checkpoint_is_copied_whole_beside_others_and_the_program_gets_its_arguments(tmp_path: Path) -> None:
    source = tmp_path / ODD / "step_4"
    (source / "deep").mkdir(parents=True)
    (source / "deep/weights").write_text("w")
    target = tmp_path / "out" / ODD / "step_4"
    preparation = Preparation(Machine(work_dir=str(tmp_path)))
    preparation.copy(str(source), str(target))
    preparation.write("global_step4", str(tmp_path / "out/latest"))
    done = run(preparation, tmp_path, ["python3", "-c", "import sys; print(sys.argv[1:]); sys.exit(7)", ODD, "", "--"])
    assert (done.returncode, done.stdout.strip()) == (7, repr([ODD, "", "--"])), done.stderr
    assert (target / "deep/weights").read_text() == "w"
    assert (tmp_path / "out/latest").read_text() == "global_step4"
    assert [path.name for path in target.parent.iterdir()] == ["step_4"]


def test_what_a_trainer_removes_of_its_copy_stays_in_the_earlier_attempt(tmp_path: Path) -> None:
    source = tmp_path / "one/step_4"
    source.mkdir(parents=True)
    (source / "weights").write_text("w")
    preparation = Preparation(Machine(work_dir=str(tmp_path)))
    preparation.copy(str(source), str(tmp_path / "two/step_4"))
    done = run(preparation, tmp_path, ["rm", "-r", str(tmp_path / "two/step_4")])
    assert done.returncode == 0, done.stderr
    assert (source / "weights").read_text() == "w"


def test_half_a_copy_of_a_killed_start_is_replaced_and_a_whole_one_left_alone(tmp_path: Path) -> None:
    source = tmp_path / "one/step_4"
    source.mkdir(parents=True)
    (source / "weights").write_text("new")
    target = tmp_path / "two/step_4"
    half = Path(f"{target}.part")
    half.mkdir(parents=True)
    (half / "rest").write_text("old")
    for _ in range(2):
        preparation = Preparation(Machine(work_dir=str(tmp_path)))
        preparation.copy(str(source), str(target))
        assert run(preparation, tmp_path, ["true"]).returncode == 0
        assert [path.name for path in target.iterdir()] == ["weights"]
        (source / "weights").write_text("newer")  # the same data by another name, or a copy: either is whole
    assert [path.name for path in target.parent.iterdir()] == ["step_4"]


def test_a_missing_checkpoint_stops_before_the_program(tmp_path: Path) -> None:
    preparation = Preparation(Machine(work_dir=str(tmp_path)))
    preparation.copy(str(tmp_path / "none"), str(tmp_path / "two"))
    done = run(preparation, tmp_path, ["touch", str(tmp_path / "started")])
    assert done.returncode != 0
    assert "none" in done.stderr
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(("count", "shared"), [(1, False), (2, True)])
def test_machines_that_share_no_work_dir_find_the_experiment_in_the_out_dir(count: int, shared: bool) -> None:
    preparation = Preparation(Machine(count=count, work_dir="/tmp/w"))
    capsule = trl_capsule()
    own, other = "/tmp/w/lab/experiments/first", "/srv/jobs/0/out/experiment"
    assert preparation.shared_experiment(capsule) == (other if shared else own)
    assert preparation.shared_experiment(capsule) == (other if shared else own)
    assert preparation.wrap(["a"])[0][2:5] == (["copy", own, other] if shared else [])
