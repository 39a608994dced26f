"""The spool's directory: numbered segments, `ack.json` with what the console has stored, `claim` (claim.py), and `closed` once its
writer has written all it had.

A segment is final once a newer one exists. Writer and reader share nothing but these files, so a reader after the
writer's death (`leftovers`) sees the same as one beside it.
"""

from __future__ import annotations

import json
import os
import re
import stat
from typing import Dict, List

from tuneplane.runner.files import remove, write_json

ACK_FILE = "ack.json"
CLOSED_FILE = "closed"
RANK_DIR = "rank-"
_SEGMENT = re.compile(r"([0-9]{8})\.seg\Z")
_KEY = re.compile(r"[0-9]+/[a-z]+\Z")


def rank_directory(spool_dir: str, machine_rank: int) -> str:
    """Each machine of a job spools below its own directory: they share one file system."""
    return os.path.join(spool_dir, f"{RANK_DIR}{machine_rank}")


def make_rank_directory(spool_dir: str, machine_rank: int) -> str:
    """With the parent's permissions: who sends the leftovers, the engine, need not be the container's user."""
    directory = rank_directory(spool_dir, machine_rank)
    os.makedirs(spool_dir, mode=0o755, exist_ok=True)
    try:
        os.mkdir(directory)
    except FileExistsError:
        return directory
    os.chmod(directory, stat.S_IMODE(os.stat(spool_dir).st_mode) & 0o777)
    return directory


def segment_path(directory: str, number: int) -> str:
    return os.path.join(directory, f"{number:08d}.seg")


def list_segments(directory: str) -> List[int]:
    """Numbers of the segments on disk, ascending; empty when there is no directory."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return sorted(int(match.group(1)) for match in map(_SEGMENT.match, names) if match)


def used_bytes(directory: str) -> int:
    total = 0
    for number in list_segments(directory):
        try:
            total += os.stat(segment_path(directory, number)).st_size
        except FileNotFoundError:
            continue  # acknowledged and removed meanwhile
    return total


def remove_segment(directory: str, number: int) -> None:
    remove(segment_path(directory, number))


def read_ack(directory: str) -> Dict[str, int]:
    """`<rank>/<stream>` -> highest seq that the console has; empty when nothing was acknowledged or the file is damaged.

    A damaged file costs duplicates on the wire, which the console knows by their seq, and nothing else.
    """
    try:
        with open(os.path.join(directory, ACK_FILE), "rb") as file:
            value = json.loads(file.read(1 << 20))
    except (OSError, ValueError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {key: seq for key, seq in value.items() if _KEY.match(key) and isinstance(seq, int) and seq >= 0}


def write_ack(directory: str, ack: Dict[str, int]) -> None:
    write_json(os.path.join(directory, ACK_FILE), ack)


def mark_closed(directory: str) -> None:
    """Whoever finds the spool knows now that nothing is missing at its end. Raises `OSError`."""
    write_json(os.path.join(directory, CLOSED_FILE), {})


def is_closed(directory: str) -> bool:
    return os.path.exists(os.path.join(directory, CLOSED_FILE))


def last_change(directory: str) -> float:
    """Unix seconds of the newest record on disk, or of what stands for it when all are acknowledged; 0 when there is none."""
    paths = [segment_path(directory, number) for number in list_segments(directory)[-1:]]
    for path in (*paths, os.path.join(directory, ACK_FILE)):
        try:
            return os.stat(path).st_mtime
        except OSError:
            continue
    return 0.0
