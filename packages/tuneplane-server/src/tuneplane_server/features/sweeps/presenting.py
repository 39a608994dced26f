"""A sweep with what other features know of its trials: the phases of their jobs, and what they have reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuneplane_server.domain.sweeps import TrialState
from tuneplane_server.features.jobs.seen import seen
from tuneplane_server.features.sweeps.tables import SweepRow
from tuneplane_server.features.sweeps.values import Values
from tuneplane_server.features.sweeps.views import SweepDetail, SweepView, sweep_detail, sweep_view

if TYPE_CHECKING:
    from tuneplane_server.services import Services


async def present(services: Services, row: SweepRow) -> SweepDetail:
    trials = await services.sweeps.trials(row.id)
    live = [trial.job_id for trial in trials if trial.state == TrialState.SUBMITTED and trial.job_id]
    async with services.database.session() as session:
        jobs = await seen(session, [trial.job_id for trial in trials if trial.job_id])
    return sweep_detail(row, trials, jobs, await Values(services.telemetry).latest(live, row.metric))


async def present_list(services: Services, rows: Sequence[SweepRow]) -> list[SweepView]:
    counts = await services.sweeps.counts([row.id for row in rows])
    values = await services.sweeps.best_values(rows)
    return [sweep_view(row, counts[row.id], values.get(row.id)) for row in rows]
