"""Who stands in the executor's own queue, as far as that was seen: runs that were passed on and have not begun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.domain.transitions import EXECUTOR_QUEUE
from tuneplane_server.features.jobs.in_queue import QueuedNames
from tuneplane_server.features.jobs.tables import JobRow

MOST = 500  # the longest wait first; who looks for more asks for the run
_JOB: Any = JobRow.__table__.c
_STARTING = (
    select(
        _JOB.id,
        _JOB.owner,
        _JOB.project,
        _JOB.experiment,
        _JOB.display_name,
        _JOB.owner_id,
        _JOB.priority,
        _JOB.demand,
        _JOB.conditions,
    )
    .where(_JOB.phase == "starting")
    .order_by(_JOB.phase_since, _JOB.id)
    .limit(MOST)
)


@dataclass(frozen=True)
class PassedOn:
    """`seen`: data of the condition `executor-queue`; `demand`: `JobRow.demand`."""

    names: QueuedNames
    owner_id: str
    priority: int
    demand: Sequence[Mapping[str, Any]]
    seen: Mapping[str, Any]


async def passed_on(session: AsyncSession) -> list[PassedOn]:
    """By their place in that queue, those without one last."""
    found = []
    for *names, owner_id, priority, demand, conditions in await session.execute(_STARTING):
        seen = next((item["data"] for item in conditions if item["type"] == EXECUTOR_QUEUE), None)
        if seen is not None:
            found.append(PassedOn(QueuedNames(*names), owner_id, priority, demand, seen))
    return sorted(found, key=lambda item: (item.seen.get("position") is None, item.seen.get("position") or 0))
