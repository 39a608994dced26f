"""SQL of the holds."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.domain.placement import Assignment
from tuneplane_server.features.hardware.tables import CpuHoldRow, GpuHoldRow

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


async def held_cpus(session: AsyncSession) -> dict[str, tuple[float, float]]:
    """Node -> (CPUs, GB of memory) held."""
    query = select(CpuHoldRow.node, func.sum(CpuHoldRow.cpus), func.sum(CpuHoldRow.memory_gb)).group_by(CpuHoldRow.node)
    return {node: (float(cpus), float(memory)) for node, cpus, memory in await session.execute(query)}


async def hold(session: AsyncSession, job_id: str, attempt: int, assignments: list[Assignment], now: datetime) -> None:
    """Insert the holds; a card that somebody holds raises IntegrityError and the whole placement is undone."""
    for item in assignments:
        session.add_all(
            GpuHoldRow(node=item.node, gpu_index=index, job_id=job_id, attempt=attempt, since=now)
            for index in item.gpus
        )
        if item.cpus or item.memory_gb:
            session.add(
                CpuHoldRow(
                    job_id=job_id,
                    attempt=attempt,
                    node=item.node,
                    cpus=item.cpus,
                    memory_gb=item.memory_gb,
                    since=now,
                )
            )
    await session.flush()


async def release(session: AsyncSession, job_id: str, attempt: int) -> None:
    for table in (GpuHoldRow, CpuHoldRow):
        await session.execute(delete(table).where(table.job_id == job_id, table.attempt == attempt))


async def holders(session: AsyncSession) -> list[GpuHoldRow]:
    return list(await session.scalars(select(GpuHoldRow).order_by(GpuHoldRow.node, GpuHoldRow.gpu_index)))
