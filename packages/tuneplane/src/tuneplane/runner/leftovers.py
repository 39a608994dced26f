"""Sends what a runner left in its spool: used by the engine once the container is gone (scenario 21)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import monotonic
from typing import Callable, List, NamedTuple

from tuneplane.runner.cursor import Cursor
from tuneplane.runner.segments import RANK_DIR, list_segments
from tuneplane.runner.shipper import DENIED, EMPTY, LATER, Shipper
from tuneplane.runner.wire import IngestClient


class Leftovers(NamedTuple):
    """Records sent by this call, and records that are still in the spool. `remaining == 0` means that the console has everything."""

    shipped: int
    remaining: int


def ship_leftovers(
    spool_dir: Path, url: str, token: str, deadline_seconds: float, say: Callable[[str], None] = lambda text: None
) -> Leftovers:
    """Send what lies in the attempt's spool directory, every machine's, within `deadline_seconds`; ends when the console is away.

    `url` is the ingest base `…/ingest/v1/jobs/<job>`. Blocking; call it from a thread. May be repeated and may be interrupted at any
    line: records carry their seq, so the console stores each once. Raises `ValueError` for a URL that is none, `OSError` for a
    spool that cannot be read.
    """
    end = monotonic() + deadline_seconds
    shipped = remaining = 0
    client = IngestClient(url, token)
    try:
        for directory in _machine_directories(spool_dir):
            cursor = Cursor(directory)
            shipped += _ship(cursor, client, _attempt_in(cursor), end, say)
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


def _attempt_in(cursor: Cursor) -> int:
    """The attempt is part of every record; acknowledgements name it."""
    batch = cursor.next_batch(1)
    return int(json.loads(batch.frames[0].payload)["attempt"]) if batch is not None else 1


def _machine_directories(spool_dir: Path) -> List[str]:
    try:
        names = sorted(name for name in os.listdir(spool_dir) if name.startswith(RANK_DIR))
    except FileNotFoundError:
        return []
    return [path for path in (os.path.join(spool_dir, name) for name in names) if list_segments(path)]
