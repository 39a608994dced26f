"""Checkpoints as `checkpoints/checkpoint-<step>`; the empty file COMPLETE, written last, says that a run can resume from one."""

import os
import shutil
from pathlib import Path
from typing import Any

import torch


def save(out: Path, step: int, state: dict[str, Any], keep: int) -> Path:
    """Writes one, and removes all but the newest `keep`."""
    folder = out / "checkpoints"
    target = folder / f"checkpoint-{step}"
    shutil.rmtree(target, ignore_errors=True)  # half written by an attempt that was killed
    target.mkdir(parents=True)
    write(target / "state.pt", {"step": step, **state})
    (target / "COMPLETE").touch()
    for old in sorted(folder.glob("checkpoint-*"), key=step_of)[:-keep]:
        (old / "COMPLETE").unlink(missing_ok=True)  # first: without its weights it is none
        shutil.rmtree(old)
    return target


def write(path: Path, state: dict[str, Any]) -> None:
    """Under another name first: what has the name is whole, and on the disk."""
    unfinished = path.with_name(path.name + ".part")
    with unfinished.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def load(source: str, device: torch.device) -> dict[str, Any]:
    return torch.load(Path(source) / "state.pt", map_location=device, weights_only=True)


def step_of(path: Path) -> int:
    return int(path.name.rpartition("-")[2])
