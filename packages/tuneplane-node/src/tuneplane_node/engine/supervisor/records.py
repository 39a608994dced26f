"""Small JSON files that are there whole or not at all. Standard library only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_record(path: Path, value: dict[str, Any]) -> None:
    """Write and rename, so that a crash or a power cut leaves the old file or the new one."""
    partial = path.with_suffix(".part")
    with partial.open("w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync_directory(path.parent)


def read_record(path: Path) -> dict[str, Any] | None:
    """None when there is no such file. OSError and ValueError mean that it cannot be known."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds no object")
    return value


def sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
