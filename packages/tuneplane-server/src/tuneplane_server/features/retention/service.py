"""Keeps and applies the setting of each project. What is removed is said in the run, and never of a run that is not over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.exc import IntegrityError

from tuneplane.i18n import _
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.retention import Ended, Keep, Kind, Removal, removals
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.audit.service import AuditEntry, AuditService
from tuneplane_server.features.hardware.figures import HardwareFigures
from tuneplane_server.features.jobs.ledger import Ledger
from tuneplane_server.features.jobs.service import JobService
from tuneplane_server.features.projects.service import ProjectService
from tuneplane_server.features.retention import repo
from tuneplane_server.features.retention.tables import RetentionRow
from tuneplane_server.features.retention.views import GB, RetentionValue
from tuneplane_server.features.telemetry.removal import Held
from tuneplane_server.features.telemetry.service import TelemetryService
from tuneplane_server.web.problems import ProblemError, refused

RUNS_AT_ONCE = 500
EVENT = "telemetry-removed"
# Between two steps the others have their turn: a project's old gigabytes are in no hurry.
REST_SECONDS = 0.02
NOTHING = Held(0, 0, False)


@dataclass(frozen=True)
class Setting:
    """`used_bytes`: of output and samples, over all runs of the project."""

    value: RetentionValue
    version: int
    updated_at: datetime | None
    updated_by: str | None
    used_bytes: int


class RetentionService:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        audit: AuditService,
        projects: ProjectService,
        jobs: Callable[[], JobService],
        ledger: Ledger,
        telemetry: TelemetryService,
        figures: HardwareFigures,
    ) -> None:
        self._database, self._clock, self._audit, self._projects = database, clock, audit, projects
        self._jobs, self._ledger, self._telemetry, self._figures = jobs, ledger, telemetry, figures

    # --- the setting ----------------------------------------------------------------------------------------------

    async def setting(self, principal: Principal, owner: str, name: str) -> Setting:
        """Of a project that the caller may see; `not-found` otherwise."""
        project = await self._projects.get(principal, owner, name)
        async with self._database.session() as session:
            row = await repo.setting(session, project.id)
            used = await self._telemetry.bytes_of(session, self._jobs().runs_of(project_id=project.id))
        return _setting(row, used)

    async def set(
        self, principal: Principal, owner: str, name: str, value: RetentionValue, version: int, address: str = ""
    ) -> Setting:
        """Replace the setting. Raises `conflict` when it is not at `version` any more."""
        project = await self._projects.get(principal, owner, name)
        now, stored = self._clock.now(), value.model_dump(mode="json")
        try:
            async with self._database.begin() as session:
                row = await repo.setting(session, project.id)
                before = None if row is None else dict(row.value)
                found = 0 if row is None else row.version
                if found != version or not await repo.write_setting(
                    session, project.id, version, stored, principal.username, now
                ):
                    raise _conflict()
                data = {"before": before, "after": stored, "version": version + 1}
                entry = AuditEntry(principal.username, "retention.set", f"{owner}/{name}", address, data)
                self._audit.record(session, entry)
        except IntegrityError:  # both found no row; the other one was first
            raise _conflict() from None
        return await self.setting(principal, owner, name)

    # --- what is gone ---------------------------------------------------------------------------------------------

    async def removed(self, job_id: str) -> dict[Kind, datetime]:
        """Kind -> when it began to go, of what the setting has removed of a run."""
        async with self._database.session() as session:
            return {Kind(row.kind): row.began_at for row in await repo.removed(session, job_id)}

    # --- removing -------------------------------------------------------------------------------------------------

    async def projects(self) -> list[str]:
        """Projects that do not keep everything."""
        async with self._database.session() as session:
            return [row.project_id for row in await repo.settings(session) if not _keep(row).everything]

    async def version(self, project_id: str) -> int:
        """Of the setting; what was due under another one may not be any more."""
        async with self._database.session() as session:
            row = await repo.setting(session, project_id)
        return 0 if row is None else row.version

    async def due(self, project_id: str, limit: int) -> list[Removal]:
        """What goes next of a project's, at most `limit`."""
        async with self._database.session() as session:
            row = await repo.setting(session, project_id)
            used = await self._telemetry.bytes_of(session, self._jobs().runs_of(project_id=project_id))
        keep = Keep({}) if row is None else _keep(row)
        if keep.everything:
            return []
        return removals(keep, await self._ended(project_id), used, self._clock.now(), limit)

    async def remove(self, removal: Removal) -> None:
        """Remove it, a few rows in a transaction. A crash between two of them leaves a removal that is due again."""
        job_id, kind = removal.job_id, removal.kind
        held = (await self._telemetry.removal.held([job_id])).get(job_id)
        size = 0 if held is None else {Kind.LOGS: held.log_bytes, Kind.SAMPLES: held.sample_bytes}.get(kind, 0)
        async with self._database.begin() as session:
            await repo.begin(session, job_id, kind, removal.why, size, self._clock.now())
        more = True
        while more:
            more = await self._telemetry.removal.some(job_id, kind)
            await asyncio.sleep(REST_SECONDS)
        async with self._database.begin() as session:
            if await repo.done(session, job_id, kind, self._clock.now()):
                await self._ledger.note(session, job_id, EVENT, {"kind": kind, "why": removal.why, "bytes": size})

    async def _ended(self, project_id: str) -> Sequence[Ended]:
        """Runs of the project that are over and of which something is stored, by their end, oldest first."""
        ended = await self._jobs().ended(project_id)
        found: list[Ended] = []
        for start in range(0, len(ended), RUNS_AT_ONCE):
            some = dict(ended[start : start + RUNS_AT_ONCE])
            held = await self._telemetry.removal.held(list(some))
            figures = await self._figures.held(list(some))
            for job_id, finished_at in some.items():
                of_run = held.get(job_id, NOTHING)
                metrics = (
                    of_run.metrics or job_id in figures
                )  # of the machine: kept as long, also of a run that reported none
                if metrics or job_id in held:
                    found.append(Ended(job_id, finished_at, of_run.log_bytes, of_run.sample_bytes, metrics))
        return found


def _keep(row: RetentionRow) -> Keep:
    value = RetentionValue.model_validate(row.value)
    days = {Kind.LOGS: value.logs_days, Kind.METRICS: value.metrics_days, Kind.SAMPLES: value.samples_days}
    return Keep(
        {kind: count for kind, count in days.items() if count is not None},
        None if value.total_gb is None else int(value.total_gb * GB),
    )


def _setting(row: RetentionRow | None, used_bytes: int) -> Setting:
    if row is None:
        return Setting(RetentionValue(), 0, None, None, used_bytes)
    value = RetentionValue.model_validate(row.value)
    return Setting(value, row.version, row.updated_at, row.updated_by, used_bytes)


def _conflict() -> ProblemError:
    return refused(
        "conflict",
        _("the retention of this project was changed meanwhile"),
        _("read it again, and make the change if it is still right"),
        field="version",
    )
