"""How much room is left on the disk of the storage root."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Space:
    """Bytes; `free` is what an unprivileged writer may still use."""

    free: int
    total: int

    @property
    def percent(self) -> float:
        """Free share, 0 to 100."""
        return 100.0 * self.free / self.total if self.total else 0.0


async def space_of(root: Path) -> Space | None:
    """None while the disk cannot be asked. In a thread: a network disk may take its time."""
    try:
        usage = await asyncio.to_thread(shutil.disk_usage, root)
    except OSError:
        return None
    return Space(usage.free, usage.total)
