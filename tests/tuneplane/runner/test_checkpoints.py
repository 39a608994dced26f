"""Which checkpoints a run can resume from, and why not from the others (scenario 31)."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tuneplane.runner.checkpoints import find_checkpoints, problem_of, step_of


def safetensors(size: int = 64, cut: int = 0) -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    data = struct.pack("<Q", len(header)) + header + b"\1" * size
    return data[: len(data) - cut]


def complete(step: int = 4) -> dict[str, bytes]:
    return {
        "model.safetensors": safetensors(),
        "config.json": b"{}",
        "optimizer.pt": b"o",
        "scheduler.pt": b"s",
        "rng_state.pth": b"r",
        "trainer_state.json": json.dumps({"global_step": step}).encode(),
    }


def sharded(missing: str | None = None) -> dict[str, bytes]:
    files = complete()
    del files["model.safetensors"]
    shards = {f"model-0000{number}-of-00002.safetensors": safetensors() for number in (1, 2)}
    weights = dict(zip("ab", shards))  # noqa: B905 - strict= needs 3.10
    files["model.safetensors.index.json"] = json.dumps({"weight_map": weights}).encode()
    files.update({name: data for name, data in shards.items() if name != missing})
    return files


def without(*names: str) -> dict[str, bytes]:
    return {name: data for name, data in complete().items() if name not in names}


def write(directory: Path, files: dict[str, bytes]) -> str:
    directory.mkdir(parents=True)
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return str(directory)


SHARD = "model-00002-of-00002.safetensors"
SEVERAL_RANKS = {**without("rng_state.pth"), "rng_state_0.pth": b"r", "rng_state_1.pth": b"r"}
ADAPTER = {**without("model.safetensors"), "adapter_model.safetensors": safetensors()}
DEEPSPEED = without("model.safetensors", "optimizer.pt", "scheduler.pt")


@pytest.mark.parametrize("files", [complete(), sharded(), SEVERAL_RANKS, ADAPTER, {"COMPLETE": b"", "mine.bin": b"x"}])
def test_a_whole_one_can_be_resumed(tmp_path: Path, files: dict[str, bytes]) -> None:
    assert problem_of(write(tmp_path / "checkpoint-4", files)) is None


def test_a_whole_one_of_deepspeed_can_be_resumed(tmp_path: Path) -> None:
    path = write(tmp_path / "checkpoint-4", DEEPSPEED)
    (tmp_path / "checkpoint-4/global_step4").mkdir()
    assert problem_of(path) is None


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (without("trainer_state.json"), "trainer_state.json is missing"),
        ({**complete(), "trainer_state.json": b'{"global_'}, "trainer_state.json is cut off"),
        (complete(step=3), "is of step 3, not 4"),
        (sharded(missing=SHARD), f"shard {SHARD} is missing"),
        ({**sharded(), SHARD: safetensors(cut=10)}, f"{SHARD} is cut off"),
        ({**complete(), "model.safetensors": b""}, "model.safetensors is empty"),
        ({**complete(), "model.safetensors": b"\0" * 6}, "model.safetensors is cut off"),
        (without("model.safetensors"), "no model weights"),
        (without("optimizer.pt"), "no optimizer state"),
        ({**complete(), "optimizer.pt": b""}, "optimizer.pt is empty"),
        (without("scheduler.pt"), "no scheduler state"),
        (without("rng_state.pth"), "no random state"),
        ({**without("rng_state.pth"), "rng_state_1.pth": b"r"}, "random state of a rank is missing"),
        ({**complete(), "model.safetensors.tmp": b""}, "still being written"),
        ({"mine.bin": b"x"}, "layout is not known"),
        ({}, "layout is not known"),
    ],
)
def test_the_others_say_why(tmp_path: Path, files: dict[str, bytes], problem: str) -> None:
    assert problem in (problem_of(write(tmp_path / "checkpoint-4", files)) or "nothing")


def test_weights_alone_are_enough_when_the_experiment_asked_for_no_more(tmp_path: Path) -> None:
    path = write(tmp_path / "checkpoint-4", without("optimizer.pt", "scheduler.pt", "rng_state.pth"))
    assert problem_of(path, expect_optimizer=False) is None


def test_they_are_found_below_the_out_dir_only_by_step(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for name in ("checkpoint-100", "checkpoint-9", "tmp-checkpoint-5", "final"):
        (out / "checkpoints" / name).mkdir(parents=True)
    (out / "checkpoints/checkpoint-1").symlink_to(tmp_path)
    (out / "checkpoints/checkpoint-2").write_text("a file")
    found = find_checkpoints(str(out), ["checkpoints/checkpoint-*", "../*", "/*"], 10)
    assert found == ["checkpoints/checkpoint-9", "checkpoints/checkpoint-100"]
    assert find_checkpoints(str(out), ["checkpoints/checkpoint-*"], 1) == ["checkpoints/checkpoint-100"]
    assert [step_of(name) for name in ("a/checkpoint-12", "x/step_7", "final")] == [12, 7, 0]
