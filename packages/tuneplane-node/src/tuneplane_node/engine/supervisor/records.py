"""Small JSON files that are there whole or not at all. Standard library only."""

# Without pathlib, which would add a third to the start of the supervisor, and each job waits for one.
# ruff: noqa: PTH105, PTH120, PTH123
from __future__ import annotations

import json
import os
from typing import Any


def write_record(path: str | os.PathLike[str], value: dict[str, Any]) -> None:
    """Write and rename, so that a crash or a power cut leaves the old file or the new one."""
    partial = f"{os.fspath(path)}.part"
    with open(partial, "w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    sync_directory(os.path.dirname(path))


def read_record(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """None when there is no such file. OSError and ValueError mean that it cannot be known."""
    try:
        with open(path) as file:
            value = json.load(file)
    except FileNotFoundError:
        return None
    if not isinstance(value, dict):
        raise ValueError(f"{os.fspath(path)} holds no object")
    return value


def sync_directory(path: str | os.PathLike[str]) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
