"""SQL of retention."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.db.guards import changed_one
from tuneplane_server.features.retention.tables import RemovalRow, RetentionRow


async def setting(session: AsyncSession, project_id: str) -> RetentionRow | None:
    return await session.get(RetentionRow, project_id, populate_existing=True)


async def settings(session: AsyncSession) -> list[RetentionRow]:
    return list(await session.scalars(select(RetentionRow).order_by(RetentionRow.project_id)))


async def write_setting(
    session: AsyncSession, project_id: str, version: int, value: dict[str, Any], actor: str, now: datetime
) -> bool:
    """Write the row if it is still at `version` (0: there is none yet, or `IntegrityError`)."""
    values = {"value": value, "version": version + 1, "updated_at": now, "updated_by": actor}
    if version == 0:
        session.add(RetentionRow(project_id=project_id, **values))
        await session.flush()
        return True
    guarded = update(RetentionRow).where(RetentionRow.project_id == project_id, RetentionRow.version == version)
    return await changed_one(session, guarded.values(values))


async def begin(session: AsyncSession, job_id: str, kind: str, why: str, size: int, now: datetime) -> None:
    """Note that it goes; a removal that was begun before keeps its first note."""
    dialect = session.get_bind().dialect.name
    insert = sqlite.insert(RemovalRow) if dialect == "sqlite" else postgresql.insert(RemovalRow)
    values = {"job_id": job_id, "kind": kind, "why": why, "began_at": now, "done_at": None, "bytes": size}
    await session.execute(insert.values(values).on_conflict_do_nothing())


async def done(session: AsyncSession, job_id: str, kind: str, now: datetime) -> bool:
    """Note that it is gone; False when that is known already."""
    row = RemovalRow
    statement = update(row).where(row.job_id == job_id, row.kind == kind, row.done_at.is_(None))
    return await changed_one(session, statement.values(done_at=now))


async def removed(session: AsyncSession, job_id: str) -> list[RemovalRow]:
    return list(await session.scalars(select(RemovalRow).where(RemovalRow.job_id == job_id)))
