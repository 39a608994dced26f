"""SQL of the audit record."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.features.audit.tables import AuditRow


def add(session: AsyncSession, row: AuditRow) -> None:
    session.add(row)


async def newest(session: AsyncSession, before: int | None, limit: int, target: str | None) -> list[AuditRow]:
    query = select(AuditRow).order_by(AuditRow.id.desc()).limit(limit)
    if before is not None:
        query = query.where(AuditRow.id < before)
    if target is not None:
        query = query.where(AuditRow.target == target)
    return list(await session.scalars(query))
