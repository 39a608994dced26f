"""SQL of the holds and of the uses that account for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Float,
    Integer,
    String,
    case,
    cast,
    delete,
    extract,
    func,
    or_,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.db.lists import among
from tuneplane_server.domain.placement import Assignment
from tuneplane_server.features.hardware.tables import CpuHoldRow, GpuHoldRow, GpuUseRow

DAY_SECONDS = 86_400
USES_AT_ONCE = 500  # what one statement brings is worked on without a break

# Placement decides on what is free, so two consoles decide one after the other.
PLACEMENT_LOCK = 7_286_415_003


async def lock_placement(session: AsyncSession) -> None:
    """Held until the transaction ends. SQLite has one writer anyway."""
    if session.get_bind().dialect.name != "sqlite":
        await session.execute(text("select pg_advisory_xact_lock(:key)"), {"key": PLACEMENT_LOCK})


async def held_gpus(session: AsyncSession) -> dict[str, set[int]]:
    """Node -> indices of held cards."""
    held: dict[str, set[int]] = {}
    for node, index in await session.execute(select(GpuHoldRow.node, GpuHoldRow.gpu_index)):
        held.setdefault(node, set()).add(index)
    return held


async def count_holds(session: AsyncSession) -> tuple[int, int]:
    """(of cards, of CPUs)"""
    counts = (select(func.count()).select_from(table).scalar_subquery() for table in (GpuHoldRow, CpuHoldRow))
    found: Any = (await session.execute(select(*counts))).one()
    return int(found[0]), int(found[1])


async def held_cpus(session: AsyncSession) -> dict[str, tuple[float, float]]:
    """Node -> (CPUs, GB of memory) held."""
    query = select(CpuHoldRow.node, func.sum(CpuHoldRow.cpus), func.sum(CpuHoldRow.memory_gb)).group_by(CpuHoldRow.node)
    return {node: (float(cpus), float(memory)) for node, cpus, memory in await session.execute(query)}


async def hold(
    session: AsyncSession, job_id: str, attempt: int, assignments: Sequence[Assignment], now: datetime
) -> None:
    """Insert the holds; a card that somebody holds raises IntegrityError and the whole placement is undone."""
    for item in assignments:
        session.add_all(
            GpuHoldRow(node=item.node, gpu_index=index, job_id=job_id, attempt=attempt, since=now)
            for index in item.gpus
        )
    claims: dict[str, tuple[float, float]] = {}
    for item in assignments:
        cpus, memory = claims.get(item.node, (0.0, 0.0))
        claims[item.node] = (cpus + item.cpus, memory + item.memory_gb)
    session.add_all(
        CpuHoldRow(job_id=job_id, attempt=attempt, node=node, cpus=cpus, memory_gb=memory, since=now)
        for node, (cpus, memory) in claims.items()
        if cpus or memory
    )
    await session.flush()


async def release(session: AsyncSession, job_id: str, attempt: int) -> None:
    for table in (GpuHoldRow, CpuHoldRow):
        await session.execute(delete(table).where(table.job_id == job_id, table.attempt == attempt))


async def holders(session: AsyncSession, nodes: Sequence[str]) -> dict[tuple[str, int], str]:
    """(node, card) -> run that holds it, of these nodes."""
    gpu: Any = GpuHoldRow.__table__.c
    rows = await session.execute(select(gpu.node, gpu.gpu_index, gpu.job_id).where(among(session, gpu.node, nodes)))
    return {(node, index): job_id for node, index, job_id in rows}


class HoldOnNode(NamedTuple):
    """What an attempt holds of a node. `gpus`: indices, ascending; `memory_gb` in GB."""

    job_id: str
    attempt: int
    node: str
    since: datetime
    gpus: tuple[int, ...] = ()
    cpus: float = 0.0
    memory_gb: float = 0.0


async def all_holds(session: AsyncSession) -> list[HoldOnNode]:
    """Those of cards and those of CPUs. The database gathers the cards: there are eight times as many as machines."""
    gpu: Any = GpuHoldRow.__table__.c
    cpu: Any = CpuHoldRow.__table__.c
    key = (gpu.job_id, gpu.attempt, gpu.node)
    gathered = func.aggregate_strings(cast(gpu.gpu_index, String), ",")
    cards = await session.execute(select(*key, func.min(gpu.since), gathered).group_by(*key))
    held = [
        HoldOnNode(job_id, attempt, node, since, gpus=tuple(sorted(map(int, indices.split(",")))))
        for job_id, attempt, node, since, indices in cards
    ]
    cpus = await session.execute(select(cpu.job_id, cpu.attempt, cpu.node, cpu.since, cpu.cpus, cpu.memory_gb))
    return held + [
        HoldOnNode(job_id, attempt, node, since, cpus=count, memory_gb=memory)
        for job_id, attempt, node, since, count, memory in cpus
    ]


# --- uses -------------------------------------------------------------------------------------------------------------


async def pending_use(session: AsyncSession, job_id: str, attempt: int) -> GpuUseRow | None:
    """The use of an attempt that has not begun yet."""
    row = await session.get(GpuUseRow, (job_id, attempt))
    return row if row is not None and row.pending and row.ended_at is None else None


async def end_use(session: AsyncSession, job_id: str, attempt: int, now: datetime) -> None:
    """Settle a use. One that has ended stays as it is; one that never began was of no length."""
    mine = (GpuUseRow.job_id == job_id, GpuUseRow.attempt == attempt, GpuUseRow.ended_at.is_(None))
    begun = case((GpuUseRow.pending, now), else_=GpuUseRow.started_at)
    await session.execute(update(GpuUseRow).where(*mine).values(ended_at=now, started_at=begun, pending=False))


async def uses(
    session: AsyncSession,
    since: datetime,
    *,
    owner_ids: Collection[str] | None = None,
    project_ids: Collection[str] | None = None,
) -> list[GpuUseRow]:
    """Live uses and those that ended after `since`, of any of these owners or projects; None: of all."""
    query = select(GpuUseRow).where(or_(GpuUseRow.ended_at.is_(None), GpuUseRow.ended_at > since))
    if owner_ids is not None or project_ids is not None:
        mine = (GpuUseRow.owner_id.in_(owner_ids or ()), GpuUseRow.project_id.in_(project_ids or ()))
        query = query.where(or_(*mine))
    return list(await session.scalars(query.order_by(GpuUseRow.started_at)))


async def settled_uses(
    session: AsyncSession, since: datetime, until: datetime
) -> AsyncIterator[tuple[str, str, int, datetime, datetime]]:
    """(owner, project, cards, start, end) of uses of cards that ended after `since` and by `until`, in portions."""
    use: Any = GpuUseRow.__table__.c
    query = select(use.ended_at, use.job_id, use.attempt, use.owner_id, use.project_id, use.gpus, use.started_at).where(
        use.ended_at > since, use.ended_at <= until, use.gpus > 0
    )
    query = query.order_by(use.ended_at, use.job_id, use.attempt).limit(USES_AT_ONCE)
    last: tuple[datetime, str, int] | None = None
    while True:
        after = query if last is None else query.where(tuple_(use.ended_at, use.job_id, use.attempt) > last)
        rows: list[Any] = list(await session.execute(after))
        for ended, _job, _attempt, owner, project, gpus, begun in rows:
            yield owner, project, gpus, begun, ended
        if len(rows) < USES_AT_ONCE:
            return
        last = (rows[-1].ended_at, rows[-1].job_id, rows[-1].attempt)


async def recent_uses(session: AsyncSession, since: datetime) -> list[tuple[str, int, datetime, datetime | None]]:
    """(owner, cards, start, end) of uses that have cards and are live or ended after `since`; not of those that have not begun."""
    query = select(GpuUseRow.owner_id, GpuUseRow.gpus, GpuUseRow.started_at, GpuUseRow.ended_at).where(
        or_(GpuUseRow.ended_at.is_(None), GpuUseRow.ended_at > since), GpuUseRow.gpus > 0, ~GpuUseRow.pending
    )
    rows = await session.execute(query)
    return [(owner, gpus, begun, ended) for owner, gpus, begun, ended in rows]


async def daily_use(session: AsyncSession, since: datetime, until: datetime) -> list[tuple[str, datetime, float]]:
    """(owner, start of the UTC day, GPU-seconds) of uses that ended from `since` to `until`, by the day on which they ended."""
    start, end = (_unix_seconds(session, column) for column in (GpuUseRow.started_at, GpuUseRow.ended_at))
    day = cast(func.floor(end / DAY_SECONDS), Integer)
    query = (
        select(GpuUseRow.owner_id, day, func.sum(GpuUseRow.gpus * (end - start)))
        .where(GpuUseRow.ended_at > since, GpuUseRow.ended_at <= until, GpuUseRow.gpus > 0)
        .group_by(GpuUseRow.owner_id, day)
    )
    rows: list[Any] = list(await session.execute(query))
    return [
        (owner, datetime.fromtimestamp(number * DAY_SECONDS, UTC), float(seconds)) for owner, number, seconds in rows
    ]


def _unix_seconds(session: AsyncSession, column: Any) -> ColumnElement[float]:
    if session.get_bind().dialect.name == "sqlite":
        return (func.julianday(column) - 2_440_587.5) * DAY_SECONDS
    return cast(extract("epoch", column), Float(53))
