"""Brings home what a runner left in its spool when it ended: through the ingest endpoint, as the runner would have."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path

from tuneplane.runner.leftovers import Leftovers, ship_leftovers
from tuneplane_server.background.launching import TokenIssuer
from tuneplane_server.features.jobs.capsule import ingest_url
from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.storage.layout import StorageRoot

DEADLINE_SECONDS = 20.0
AT_ONCE = 4  # each is a thread that reads a disk and posts to ourselves

type Ship = Callable[..., Leftovers]  # as ship_leftovers


class LeftoverShipper:
    """`own_address` gives the console's address on this machine, which no proxy stands before."""

    def __init__(
        self, storage: StorageRoot, tokens: TokenIssuer, own_address: Callable[[], str], ship: Ship = ship_leftovers
    ) -> None:
        self.storage = storage
        self._tokens, self._own_address, self._ship = tokens, own_address, ship
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def ship(self, row: JobRow) -> int:
        """Send what is left of the current attempt; returns how many records could not be sent for now."""
        spool = self.storage.attempt(row.owner, row.project, row.id, row.attempt).spool
        if not await asyncio.to_thread(_holds_something, spool):
            return 0
        async with self._slots:
            token = await self._tokens.issue(row.id, row.attempt)
            url = ingest_url(self._own_address(), row.id)
            ship = functools.partial(self._ship, spool, url, token, DEADLINE_SECONDS, attempt=row.attempt)
            left = await asyncio.to_thread(ship)
        return left.remaining


def _holds_something(spool: Path) -> bool:
    return spool.is_dir() and any(spool.iterdir())
