"""Which images we brought to this machine, and when a job last used each: what may be removed when space is short.

Blocking file work; one file a runtime, written whole or not at all.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tuneplane_node.engine.supervisor.records import read_record, write_record

MAX_NOTED = 2000
FRESH_SECONDS = 60.0  # a use that soon after the last one is not worth a write


@dataclass(frozen=True)
class ImageUse:
    """`pulled`: it was not here before we brought it. `used`: Unix seconds of the last launch with it."""

    reference: str
    pulled: bool
    used: float


class ImageUses:
    """`record`: on a local disk. Raises OSError when it cannot be read or written."""

    def __init__(self, record: Path, clock: Callable[[], float] = time.time) -> None:
        self._record, self._clock = record, clock
        self._lock = threading.Lock()

    def note(self, reference: str, *, pulled: bool) -> None:
        """A job is about to use it. Noted before the pull as well, so that an image whose pull nobody saw the end of is ours."""
        now = self._clock()
        with self._lock:
            noted = self._read()
            before = noted.get(reference)
            if before is not None and (before.pulled or not pulled) and 0 <= now - before.used < FRESH_SECONDS:
                return
            noted[reference] = ImageUse(reference, pulled or (before is not None and before.pulled), now)
            newest = sorted(noted.values(), key=lambda use: use.used)[-MAX_NOTED:]
            self._write({use.reference: use for use in newest})

    def all(self) -> list[ImageUse]:
        """Least recently used first."""
        with self._lock:
            return sorted(self._read().values(), key=lambda use: use.used)

    def forget(self, reference: str) -> None:
        with self._lock:
            noted = self._read()
            if noted.pop(reference, None) is not None:
                self._write(noted)

    def _read(self) -> dict[str, ImageUse]:
        try:
            value = read_record(self._record) or {}
            return {
                str(reference): ImageUse(str(reference), bool(pulled), float(used))
                for reference, (pulled, used) in value.get("images", {}).items()
            }
        except (ValueError, TypeError, AttributeError):
            return {}  # damaged: then nothing of what is here counts as ours, and nothing of it is removed

    def _write(self, noted: dict[str, ImageUse]) -> None:
        self._record.parent.mkdir(parents=True, exist_ok=True)
        images = {reference: [use.pulled, use.used] for reference, use in noted.items()}
        write_record(self._record, {"images": images})
