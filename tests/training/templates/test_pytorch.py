"""pytorch/image-classification trains for real under torchrun: two processes learn handwritten digits, and go on where they were stopped."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.services.ports import free_port
from tests.training.templates.harness import Job, Run, run
from tuneplane import adapters
from tuneplane.runner.checkpoints import problem_of

pytestmark = [pytest.mark.training, pytest.mark.timeout(900)]
METHOD = "pytorch/image-classification"
SHORT = {"epochs": 2, "eval_steps": 20, "save_steps": 20}
LOAD = """
import json, sys
from pathlib import Path
folder, template = map(Path, sys.argv[1:])
sys.path.insert(0, str(template))
import torch
from job_data import job_data
from model import build
shape = json.loads((folder / "model.json").read_text())
model = build(torch.zeros(1, *shape["images"]), shape["classes"], shape["channels"], shape["blocks"])
model.load_state_dict(torch.load(folder / "model.pt", weights_only=True))
_, validation = job_data(shape["validation_share"], shape["seed"])
images, labels = validation.batch(torch.arange(len(validation)), torch.device("cpu"))
print((model.eval()(images).argmax(1) == labels).float().mean().item())
"""
OWN = """
import sys
from pathlib import Path
import numpy
dice = numpy.random.default_rng(0)
for name, count in (("train/part-0", 40), ("train/part-1", 40), ("validation", 20)):
    path = Path(sys.argv[1], name)
    path.parent.mkdir(parents=True, exist_ok=True)
    labels = numpy.arange(count) % 3
    images = dice.integers(0, 40, (count, 12, 10, 3)) + labels[:, None, None, None] * 100
    numpy.savez(path, images=images.clip(0, 255).astype("uint8"), labels=labels)
"""


@pytest.fixture(scope="module")
def runtime(framework_env: Callable[[str], Path]) -> Path:
    return framework_env("pytorch")


@pytest.fixture(scope="module")
def trained(runtime: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two processes of one machine: the launcher of real cards, meeting over gloo."""
    machine = adapters.Machine(gpus_per_node=2, main_port=free_port())
    return run(Job(METHOD, SHORT), runtime, tmp_path_factory.mktemp("digits"), machine)


def test_two_processes_learn_to_read_digits(trained: Run) -> None:
    assert [step for step, _ in trained.curves["train/loss"]] == [5, 10, 15, 20, 25, 30, 35, 40, 44]
    assert {"train/accuracy", "train/grad_norm", "train/learning_rate", "validation/loss"} <= set(trained.curves)
    assert [name for name in trained.curves if name.startswith("raw/")] == []
    (first, _), *_others, (last, accuracy) = trained.curves["validation/accuracy"]
    assert (first, last) == (20, 44)
    assert accuracy > 0.8  # a guess is right once in ten
    facts = next(event["data"] for event in trained.events if event["event"] == "hyperparams")
    assert (facts["processes"], facts["batch_size"], facts["epochs"]) == (2, 32, 2)


def test_the_newest_checkpoints_are_kept_and_whole(trained: Run) -> None:
    kept = sorted(path.name for path in (trained.out / "checkpoints").iterdir())
    assert kept == ["checkpoint-40", "checkpoint-44"]  # save_total_limit: 2
    assert [problem_of(str(trained.checkpoint(step))) for step in (40, 44)] == [None, None]
    saved = [event["data"] for event in trained.events if event["event"] == "checkpoint"]
    assert [event["step"] for event in saved] == [20, 40, 44]
    assert saved[-1]["path"] == str(trained.checkpoint(44))


def test_what_the_second_process_prints_is_kept(trained: Run) -> None:
    logs = sorted((trained.out / "ranks").glob("*/attempt_0/*/*.log"))
    assert {path.parent.name for path in logs} == {"1"}


def test_a_resumed_run_repeats_the_uninterrupted_one(trained: Run, runtime: Path, tmp_path: Path) -> None:
    job = Job(METHOD, SHORT, env={"TUNEPLANE_RESUME_FROM": str(trained.checkpoint(40))})
    machine = adapters.Machine(gpus_per_node=2, main_port=free_port())
    resumed = run(job, runtime, tmp_path, machine)
    assert [step for step, _ in resumed.curves["train/loss"]] == [44]
    assert resumed.repeatable() == trained.repeatable(after=40)


def test_the_model_loads_and_reads_as_well_as_was_said(trained: Run, runtime: Path) -> None:
    template = trained.out.parent / "work/lab/experiments/first"
    command = [runtime / "bin/python", "-c", LOAD, trained.out / "model", template]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(trained.curves["validation/accuracy"][-1][1], abs=1e-6)


def test_images_of_ones_own_on_one_cpu(runtime: Path, tmp_path: Path) -> None:
    """In colour, of three kinds, in several files; SGD, moved images, a key for code of one's own, values from `--set`."""
    subprocess.run([runtime / "bin/python", "-c", OWN, tmp_path], check=True, timeout=300)
    config = {"optimizer": "sgd", "shift_pixels": 2, "batch_size": 20, "options": {"mine": "a b 'c' $HOME"}}
    env = {"TRAIN_DATA_DIR": str(tmp_path / "train"), "VALIDATION_DATA_DIR": str(tmp_path / "validation.npz")}
    job = Job(METHOD, config, {"max_steps": 30, "learning_rate": 0.02}, env)
    done = run(job, runtime, tmp_path / "run", adapters.Machine(main_port=free_port()))
    assert done.curves["validation/accuracy"][-1] == (30, 1.0)
    shape = json.loads((done.out / "model/model.json").read_text())
    assert (shape["images"], shape["classes"], shape["options"]) == ([12, 10, 3], 3, {"mine": "a b 'c' $HOME"})
    assert not (done.out / "ranks").exists() or not list((done.out / "ranks").glob("*/*/*/*.log"))
