"""Sends what a runner left in its spool: used by the engine once the container is gone (scenario 21)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import gmtime, monotonic, strftime, time
from typing import Callable, List, NamedTuple, Optional

from tuneplane.contract.words import STREAM_EVENT
from tuneplane.runner.claim import is_surely_over
from tuneplane.runner.cursor import Cursor
from tuneplane.runner.segments import RANK_DIR, is_closed, last_change, list_segments
from tuneplane.runner.shipper import DENIED, EMPTY, LATER, Shipper
from tuneplane.runner.spool import Spool
from tuneplane.runner.wire import IngestClient

KILLED = "runner-killed"


class Leftovers(NamedTuple):
    """Records sent by this call, and records that are still in the spool. `remaining == 0` means that the console has everything."""

    shipped: int
    remaining: int


def ship_leftovers(
    spool_dir: Path,
    url: str,
    token: str,
    deadline_seconds: float,
    say: Callable[[str], None] = lambda text: None,
    attempt: Optional[int] = None,
) -> Leftovers:
    """Send what lies in the attempt's spool directory, every machine's, within `deadline_seconds`; ends when the console is away.

    `url` is the ingest base `…/ingest/v1/jobs/<job>`. Blocking; call it from a thread. May be repeated and may be interrupted at any
    line: records carry their seq, so the console stores each once. Where a runner was killed before it had written all it had, a
    `runner-killed` warning says behind which records something may be missing. `attempt` is asked for only when no record is left
    that names it. Raises `ValueError` for a URL that is none, `OSError` for a
    spool that cannot be read.
    """
    end = monotonic() + deadline_seconds
    shipped = remaining = 0
    client = IngestClient(url, token)
    try:
        for directory in _machine_directories(spool_dir):
            _mark_killed(spool_dir, directory, attempt, say)
            if not list_segments(directory):
                continue
            cursor = Cursor(directory)
            shipped += _ship(cursor, client, _attempt_in(cursor) or attempt or 1, end, say)
            try:
                cursor.finish()
            except OSError as error:
                # Another user's spool: what was sent is stored all the same, and sent again it is a duplicate.
                say(f"the spool's state cannot be written: {error}")
            remaining += cursor.pending()
    finally:
        client.close()
    return Leftovers(shipped, remaining)


def _ship(cursor: Cursor, client: IngestClient, attempt: int, end: float, say: Callable[[str], None]) -> int:
    shipper = Shipper(cursor, client, attempt, say)
    while monotonic() < end:
        outcome = shipper.step(max(0.5, end - monotonic()))
        if outcome in (EMPTY, DENIED) or (outcome == LATER and shipper.wait > 0):
            break  # a console that is away is asked again by the caller's own back-off; a smaller batch goes at once
    return shipper.shipped


def _mark_killed(spool_dir: Path, directory: str, attempt: Optional[int], say: Callable[[str], None]) -> None:
    """Say in the spool itself that its writer was killed, once, and behind which of its records something may be missing."""
    rank = os.path.basename(directory)[len(RANK_DIR) :]
    if is_closed(directory) or not rank.isdigit() or not is_surely_over(directory):
        return
    attempt = _attempt_in(Cursor(directory)) or attempt
    if attempt is None:
        return
    changed = strftime("%Y-%m-%d %H:%M:%S", gmtime(last_change(directory)))
    text = f"the runner of machine {rank} was killed; what the trainer said after {changed} UTC may be missing"
    try:
        spool = Spool(str(spool_dir), attempt, int(rank))
        data = {"code": KILLED, "text": text, "after": spool.last_seqs()}
        spool.append(STREAM_EVENT, int(rank), {"time": time(), "event": "warning", "data": data})
        spool.close()
    except OSError as error:
        say(f"that the runner was killed cannot be written into its spool: {error}")


def _attempt_in(cursor: Cursor) -> Optional[int]:
    """The attempt is part of every record; acknowledgements name it. None when no record is left."""
    batch = cursor.next_batch(1)
    return int(json.loads(batch.frames[0].payload)["attempt"]) if batch is not None else None


def _machine_directories(spool_dir: Path) -> List[str]:
    try:
        names = sorted(name for name in os.listdir(spool_dir) if name.startswith(RANK_DIR))
    except FileNotFoundError:
        return []
    return [os.path.join(spool_dir, name) for name in names]
