"""Signs of life of many runs at once, for who watches them: what came last and when, losses that are no number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tuneplane_server.db.engine import Database
from tuneplane_server.features.telemetry.repo import life as repo
from tuneplane_server.features.telemetry.repo.life import Last, Loss
from tuneplane_server.features.telemetry.repo.newest import Newest, newest

# An event of this name says that a phase which reports nothing may take its time: {name, max_minutes}.
PHASE_EVENT = "phase"
MOST_MINUTES = 24 * 60.0
LATEST = 1e11  # Unix seconds, about the year 5000


class SignsOfLife:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def last(self, job_ids: Sequence[str]) -> dict[str, Last]:
        """Run -> when output, a metric of the training, a sample and an event came last, whatever the attempt or rank."""
        async with self._database.session() as session:
            return {row.job_id: row for row in await repo.last(session, job_ids)}

    async def bad_losses(self, job_ids: Sequence[str]) -> list[Loss]:
        """Losses whose last value is NaN (None) or infinite."""
        async with self._database.session() as session:
            return await repo.bad_losses(session, job_ids)

    async def newest(self, job_ids: Sequence[str], names: Sequence[str]) -> dict[tuple[str, int], dict[str, Newest]]:
        """(run, attempt) -> metric -> its newest value on the main rank, of those of these names that it has."""
        found: dict[tuple[str, int], dict[str, Newest]] = {}
        async with self._database.session() as session:
            for row in await newest(session, job_ids, names):
                found.setdefault((row.job_id, row.attempt), {})[row.name] = row
        return found

    async def busy_until(self, job_ids: Sequence[str]) -> dict[str, datetime]:
        """Run -> until when the phase that it reported last may be silent; only of runs that reported one with a bound."""
        if not job_ids:
            return {}
        async with self._database.session() as session:
            rows = await repo.newest_events(session, job_ids, PHASE_EVENT)
        return dict(_bounds((row.job_id, row.time, row.data) for row in rows))


def _bounds(events: Iterable[tuple[str, float, bytes]]) -> Iterable[tuple[str, datetime]]:
    for job_id, time, data in events:
        minutes = _minutes(msgspec.json.decode(data))
        if minutes is not None and abs(time) < LATEST:  # what a machine calls the time may be anything
            yield job_id, datetime.fromtimestamp(time, UTC) + timedelta(minutes=minutes)


def _minutes(data: Any) -> float | None:
    """What a script wrote: anything may be in it."""
    minutes = data.get("max_minutes") if isinstance(data, dict) else None
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not minutes > 0:
        return None
    return min(float(minutes), MOST_MINUTES)
