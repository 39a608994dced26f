"""A job with what other features know of it: its attempts, its latest metrics, the runs it belongs with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.domain.phases import LIVE, Phase
from tuneplane_server.domain.transitions import EXECUTOR_QUEUE
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.query import JobQuery
from tuneplane_server.features.jobs.repo import BriefAttempt
from tuneplane_server.features.jobs.resume_points import ResumePoint
from tuneplane_server.features.jobs.state import held_back
from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.features.jobs.views import JobLinks, JobView, SweepLinkView, job_view
from tuneplane_server.features.queue.service import Asked
from tuneplane_server.features.queue.views import WaitingView, executor_view, waiting_view
from tuneplane_server.features.sweeps.links import trial_of

if TYPE_CHECKING:
    from tuneplane_server.features.jobs.service import Pools
    from tuneplane_server.services import Services


async def present(services: Services, row: JobRow, reader: Principal) -> JobView:
    """One job as the API shows it to `reader`."""
    attempts, latest = await services.jobs.attempts([row.id]), await services.latest_metrics([row.id])
    links = JobLinks(
        await services.jobs.followers(reader, row.id), await _resume_point(services, row), await _sweep(services, row)
    )
    waits = await _waits(services, [row])
    return job_view(row, attempts[row.id], latest.get(row.id), links=links, waiting=waits.get(row.id))


async def _resume_point(services: Services, row: JobRow) -> ResumePoint | None:
    """Where it would go on; nobody asks that of a job that runs."""
    if row.phase in LIVE:
        return None
    return await services.resume_points.default(row)


async def _sweep(services: Services, row: JobRow) -> SweepLinkView | None:
    found = await trial_of(services.database, row.id, row.spec)
    return None if found is None else SweepLinkView(id=found.sweep_id, name=found.name, trial=found.number)


async def present_page(
    services: Services, reader: Principal, query: JobQuery, *, before: str | None, limit: int
) -> tuple[list[JobView], str | None]:
    """(jobs newest first, without their specs; the id to go on from or None at the end)."""
    async with services.database.session() as session:
        rows, pools, after = await services.jobs.page(session, reader, query, before=before, limit=limit)
        beside = await _beside(services, session, rows)
    return await _listed(services, rows, pools, beside), after


async def present_list(services: Services, rows: Sequence[JobRow]) -> list[JobView]:
    """Jobs that were read already, as a listing shows them."""
    async with services.database.session() as session:
        pools = await services.jobs.pools(session, [row.id for row in rows])
        beside = await _beside(services, session, rows)
    return await _listed(services, rows, pools, beside)


class _Beside(NamedTuple):
    """What is known of jobs beside their rows: run -> its attempts, run -> its latest metrics."""

    attempts: Mapping[str, Sequence[BriefAttempt]]
    latest: Mapping[str, dict[str, Any]]


async def _beside(services: Services, session: AsyncSession, rows: Sequence[JobRow]) -> _Beside:
    """In one session: to begin one costs about as much as to ask it something."""
    ids = [row.id for row in rows]
    return _Beside(await services.jobs.brief_attempts(session, ids), await services.telemetry.latest_in(session, ids))


async def _listed(services: Services, rows: Sequence[JobRow], pools: Pools, beside: _Beside) -> list[JobView]:
    waits = await _waits(services, rows)
    return [
        job_view(
            row,
            beside.attempts[row.id],
            beside.latest.get(row.id),
            pools=pools.get(row.id, []),
            waiting=waits.get(row.id),
        )
        for row in rows
    ]


async def _waits(services: Services, rows: Sequence[JobRow]) -> dict[str, WaitingView]:
    """Run -> why it waits: of those that are queued, here or in the executor's own queue."""
    waits = {row.id: view for row in rows if (view := _in_executor_queue(row)) is not None}
    asked = [Asked(row.id, row.attempt, held_back(row)) for row in rows if row.phase == Phase.QUEUED]
    if not asked:
        return waits
    made = await services.queue.recent(asked)
    return waits | {
        job.job_id: waiting_view(made, wait) for job in asked if (wait := made.wait(job.job_id)) is not None
    }


def _in_executor_queue(row: JobRow) -> WaitingView | None:
    data = next((item["data"] for item in row.conditions if item["type"] == EXECUTOR_QUEUE), None)
    return None if data is None else executor_view(data, row.demand)
