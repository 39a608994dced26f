"""The capsule is what the contract says, the same for the same input, and whole or not there."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuneplane_server.harness import jobspec
from tuneplane.contract.capsule import Capsule
from tuneplane.contract.jobspec import JobSpec
from tuneplane.recipes import index
from tuneplane_server.features.jobs.capsule import CapsuleInput, build_capsule, write_capsule
from tuneplane_server.features.jobs.references import ResolvedReferences
from tuneplane_server.storage.layout import StorageRoot, UnsafeNameError

JOB = "0" * 16


@pytest.fixture
def given() -> CapsuleInput:
    return CapsuleInput(
        job_id=JOB,
        owner="ada",
        attempt=2,
        spec=JobSpec.model_validate(jobspec("trl/sft", hyperparams={"learning_rate": 0.001})),
        manifest=index.entry("trl/sft")["manifest"],
        references=ResolvedReferences(train="/data/train.jsonl", base="org/model@main"),
        ingest_address="http://console.test",
        resume_from="/root/out/checkpoints/checkpoint-4",
    )


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_same_input_gives_the_same_bytes_and_another_gives_others(given: CapsuleInput, tmp_path: Path) -> None:
    storage = StorageRoot(tmp_path)
    digests = [write_capsule(build_capsule(given, storage), tmp_path / name, private=True) for name in ("a", "b")]
    names = ("capsule.json", "bootstrap.sh", "runner.pex")
    assert digests[0] == digests[1] == {name: digest(tmp_path / "a" / name) for name in names}
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    other = write_capsule(build_capsule(replace(given, attempt=3), storage), tmp_path / "c", private=True)
    assert other["capsule.json"] != digests[0]["capsule.json"]


def test_it_says_what_the_runner_needs_and_no_secret(given: CapsuleInput, tmp_path: Path) -> None:
    write_capsule(build_capsule(given, StorageRoot(tmp_path)), tmp_path / "capsule", private=True)
    content = json.loads((tmp_path / "capsule" / "capsule.json").read_text())
    capsule = Capsule.model_validate(content)
    assert (capsule.job.id, capsule.job.owner, capsule.job.attempt) == (JOB, "ada", 2)
    assert capsule.paths.out_dir == f"{tmp_path}/projects/ada/lab/jobs/{JOB}/attempts/2/out"
    assert capsule.paths.resume_from == "/root/out/checkpoints/checkpoint-4"
    assert (capsule.paths.train_data, capsule.paths.base_model) == ("/data/train.jsonl", "org/model@main")
    assert capsule.ingest.url == f"http://console.test/ingest/v1/jobs/{JOB}"
    assert capsule.recipe.param_paths["learning_rate"] == "learning_rate"
    assert capsule.topology.pools[0].roles == ["train"]
    assert capsule.digests.runner == digest(tmp_path / "capsule" / "runner.pex")


def test_values_of_the_experiments_environment_are_on_no_disk(given: CapsuleInput, tmp_path: Path) -> None:
    spec = JobSpec.model_validate(jobspec("trl/sft", env={"WANDB_API_KEY": "a-secret-of-the-user"}))
    for private in (True, False):
        folder = tmp_path / str(private)
        write_capsule(build_capsule(replace(given, spec=spec), StorageRoot(tmp_path)), folder, private=private)
        assert not [path for path in folder.iterdir() if b"a-secret-of-the-user" in path.read_bytes()]
    assert spec.spec.env  # the JobSpec itself stays as it was admitted


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_it_is_readable_by_who_must_read_it(given: CapsuleInput, tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        for private in (True, False):
            write_capsule(build_capsule(given, StorageRoot(tmp_path)), tmp_path / str(private), private=private)
    finally:
        os.umask(before)

    def modes(name: str) -> set[int]:
        return {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / name).iterdir()}

    assert (stat.S_IMODE((tmp_path / "True").stat().st_mode), modes("True")) == (0o700, {0o600})
    assert (stat.S_IMODE((tmp_path / "False").stat().st_mode), modes("False")) == (0o755, {0o644})


def test_bootstrap_refuses_a_capsule_that_was_changed(given: CapsuleInput, tmp_path: Path) -> None:
    folder = tmp_path / "capsule"
    write_capsule(build_capsule(given, StorageRoot(tmp_path)), folder, private=True)
    with (folder / "capsule.json").open("ab") as file:
        file.write(b" ")
    done = subprocess.run(
        ["sh", str(folder / "bootstrap.sh")], capture_output=True, text=True, timeout=60, check=False,
        env={"PATH": "/usr/bin:/bin", "TUNEPLANE_CAPSULE_DIR": str(folder)},
    )  # fmt: skip
    assert done.returncode == 78
    assert "TUNEPLANE-BOOTSTRAP: package-corrupt" in done.stderr


def test_what_is_there_already_is_left_and_what_is_half_there_is_replaced(given: CapsuleInput, tmp_path: Path) -> None:
    capsule = build_capsule(given, StorageRoot(tmp_path))
    write_capsule(capsule, tmp_path / "capsule", private=True)
    before = (tmp_path / "capsule" / "capsule.json").stat().st_ino
    write_capsule(capsule, tmp_path / "capsule", private=True)
    assert (tmp_path / "capsule" / "capsule.json").stat().st_ino == before
    (tmp_path / "capsule" / "runner.pex").unlink()
    write_capsule(capsule, tmp_path / "capsule", private=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["capsule"]
    assert len(list((tmp_path / "capsule").iterdir())) == 3


@pytest.mark.parametrize("name", ["..", "a/b", "", ".hidden", "z" * 64, "a\0b", "阿"])
def test_no_name_becomes_a_path_unchecked(name: str, tmp_path: Path) -> None:
    storage = StorageRoot(tmp_path)
    for make in (
        lambda: storage.job(name, "lab", JOB),
        lambda: storage.job("ada", name, JOB),
        lambda: storage.job("ada", "lab", name),
        lambda: storage.package(name),
        lambda: storage.volume("ada", name),
        lambda: storage.dataset("ada", "x", name),
        lambda: storage.attempt("ada", "lab", JOB, 0),
    ):
        with pytest.raises(UnsafeNameError):
            make()
