"""A job with what other features know of it: its attempts, its latest metrics, the runs it belongs with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuneplane_server.domain.phases import LIVE, Phase
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.resume_points import ResumePoint
from tuneplane_server.features.jobs.state import held_back
from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.features.jobs.views import JobLinks, JobView, job_view
from tuneplane_server.features.queue.service import Asked
from tuneplane_server.features.queue.views import WaitingView, waiting_view

if TYPE_CHECKING:
    from tuneplane_server.services import Services


async def present(services: Services, row: JobRow, reader: Principal) -> JobView:
    """One job as the API shows it to `reader`."""
    attempts, latest = await services.jobs.attempts([row.id]), await services.latest_metrics([row.id])
    links = JobLinks(await services.jobs.followers(reader, row.id), await _resume_point(services, row))
    waits = await _waits(services, [row])
    return job_view(row, attempts[row.id], latest.get(row.id), links=links, waiting=waits.get(row.id))


async def _resume_point(services: Services, row: JobRow) -> ResumePoint | None:
    """Where it would go on; nobody asks that of a job that runs."""
    if row.phase in LIVE:
        return None
    return await services.resume_points.default(row)


async def present_list(services: Services, rows: Sequence[JobRow]) -> list[JobView]:
    """Jobs of a listing, without their specs."""
    ids = [row.id for row in rows]
    (attempts, pools), latest = await services.jobs.listed(ids), await services.latest_metrics(ids)
    waits = await _waits(services, rows)
    return [
        job_view(row, attempts[row.id], latest.get(row.id), pools=pools.get(row.id, []), waiting=waits.get(row.id))
        for row in rows
    ]


async def _waits(services: Services, rows: Sequence[JobRow]) -> dict[str, WaitingView]:
    """Run -> why it waits, of those that are queued."""
    asked = [Asked(row.id, row.attempt, held_back(row)) for row in rows if row.phase == Phase.QUEUED]
    if not asked:
        return {}
    made = await services.queue.recent(asked)
    return {job.job_id: waiting_view(made, wait) for job in asked if (wait := made.wait(job.job_id)) is not None}
