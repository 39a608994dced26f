"""A job with what other features know of it: its attempts and its latest metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.features.jobs.views import JobView, job_view

if TYPE_CHECKING:
    from tuneplane_server.services import Services


async def present(services: Services, row: JobRow) -> JobView:
    """One job as the API shows it."""
    attempts, latest = await services.jobs.attempts([row.id]), await services.latest_metrics([row.id])
    return job_view(row, attempts[row.id], latest.get(row.id))


async def present_list(services: Services, rows: Sequence[JobRow]) -> list[JobView]:
    """Jobs of a listing, without their specs."""
    ids = [row.id for row in rows]
    attempts, latest = await services.jobs.attempts(ids), await services.latest_metrics(ids)
    return [job_view(row, attempts[row.id], latest.get(row.id), with_spec=False) for row in rows]
