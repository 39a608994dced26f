"""Live jobs as a role sees them again and again: of hundreds of rows a look reads again only those that have changed.

Every write of a job row raises its `version`, so a row that is at the version it was read at is what it was.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.db.engine import Database
from tuneplane_server.features.jobs import repo
from tuneplane_server.features.jobs.tables import JobRow

type Versions = Callable[[AsyncSession], Awaitable[Sequence[tuple[str, int]]]]


class KnownJobs:
    """The rows that `versions` names, without their specs; in its order. Of one role: it forgets what is not named any more."""

    def __init__(self, database: Database, versions: Versions) -> None:
        self._database, self._versions = database, versions
        self._rows: dict[str, JobRow] = {}

    async def look(self) -> list[JobRow]:
        async with self._database.session() as session:
            named = await self._versions(session)
            known = {job_id: row for job_id, version in named if (row := self._at(job_id, version)) is not None}
            async for row in repo.without_specs(session, [job_id for job_id, _version in named if job_id not in known]):
                known[row.id] = row
        self._rows = known
        return [known[job_id] for job_id, _version in named if job_id in known]

    def _at(self, job_id: str, version: int) -> JobRow | None:
        row = self._rows.get(job_id)
        return row if row is not None and row.version == version else None
