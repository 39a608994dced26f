"""SQL that reads samples, page by page in four orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import ColumnElement, Select, and_, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.features.telemetry.tables import SampleRow


class Place(NamedTuple):
    """Behind which sample a page begins."""

    n: int
    reward: float | None = None


@dataclass(frozen=True)
class SampleFilter:
    """Ends are included; None is no limit. A limit of the reward leaves out samples without one."""

    kind: str | None = None
    attempt: int | None = None
    rank: int | None = None
    step_min: int | None = None
    step_max: int | None = None
    reward_min: float | None = None
    reward_max: float | None = None


async def page(
    session: AsyncSession, job_id: str, wanted: SampleFilter, order: str, after: Place | None, limit: int
) -> Sequence[SampleRow]:
    """At most `limit` samples behind `after`. `order`: oldest, newest, highest or lowest (by reward, newest first of equals)."""
    query = select(SampleRow).where(SampleRow.job_id == job_id, *_conditions(wanted)).limit(limit)
    return list(await session.scalars(_ordered(query, order, after)))


def _conditions(wanted: SampleFilter) -> list[ColumnElement[bool]]:
    row = SampleRow
    same = ((row.kind, wanted.kind), (row.attempt, wanted.attempt), (row.rank, wanted.rank))
    least = ((row.step, wanted.step_min), (row.reward, wanted.reward_min))
    most = ((row.step, wanted.step_max), (row.reward, wanted.reward_max))
    return [
        *(column == value for column, value in same if value is not None),
        *(column >= value for column, value in least if value is not None),
        *(column <= value for column, value in most if value is not None),
    ]


def _ordered(query: Select[SampleRow], order: str, after: Place | None) -> Select[SampleRow]:
    row = SampleRow
    if order == "oldest":
        query = query.order_by(row.n)
        return query if after is None else query.where(row.n > after.n)
    if order == "newest":
        query = query.order_by(row.n.desc())
        return query if after is None else query.where(row.n < after.n)
    query = query.where(row.reward.is_not(None))
    if order == "lowest":
        query = query.order_by(row.reward, row.n)
        beyond = (
            None if after is None else or_(row.reward > after.reward, and_(row.reward == after.reward, row.n > after.n))
        )
    else:
        query = query.order_by(row.reward.desc(), row.n.desc())
        beyond = (
            None if after is None else or_(row.reward < after.reward, and_(row.reward == after.reward, row.n < after.n))
        )
    return query if beyond is None else query.where(beyond)
