"""SQL of quotas and policies. A row is never deleted: its `version` goes on counting, so that no stale edit fits by chance."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import func, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.db.guards import changed_one
from tuneplane_server.features.governance.tables import PolicyRow, QuotaRow

# Quotas are checked against each other, so their edits come one after another.
EDIT_LOCK = 7_286_415_004


async def lock_edits(session: AsyncSession) -> None:
    """Held until the transaction ends. SQLite has one writer anyway."""
    if session.get_bind().dialect.name != "sqlite":
        await session.execute(text("select pg_advisory_xact_lock(:key)"), {"key": EDIT_LOCK})


async def quotas(session: AsyncSession) -> list[QuotaRow]:
    return list(await session.scalars(select(QuotaRow).order_by(QuotaRow.scope.desc(), QuotaRow.subject_id)))


async def quota(session: AsyncSession, scope: str, subject_id: str) -> QuotaRow | None:
    return await session.get(QuotaRow, (scope, subject_id), populate_existing=True)


async def quotas_of(session: AsyncSession, owner_id: str, project_id: str | None) -> list[QuotaRow]:
    """The rows that count for a user and one project of theirs: their own, and the defaults."""
    subjects = (("user", owner_id), ("user", ""), ("project", project_id or ""), ("project", ""))
    wanted = [(QuotaRow.scope == scope) & (QuotaRow.subject_id == subject) for scope, subject in subjects]
    query = select(QuotaRow).where(wanted[0] | wanted[1] | wanted[2] | wanted[3])
    return list(await session.scalars(query))


async def edits(session: AsyncSession) -> tuple[int, int]:
    """How often quotas and policies were edited so far."""
    counts = (select(func.sum(table.version)).scalar_subquery() for table in (QuotaRow, PolicyRow))
    found: Any = (await session.execute(select(*counts))).one()
    return int(found[0] or 0), int(found[1] or 0)


async def write_quota(
    session: AsyncSession, scope: str, subject_id: str, version: int, limits: dict[str, Any], actor: str, now: datetime
) -> bool:
    """Write the row if it is still at `version` (0: there is none yet); False when somebody was first."""
    values = {"limits": limits, "version": version + 1, "updated_at": now, "updated_by": actor}
    if version == 0:
        session.add(QuotaRow(scope=scope, subject_id=subject_id, **values))
        await session.flush()
        return True
    guarded = update(QuotaRow).where(
        QuotaRow.scope == scope, QuotaRow.subject_id == subject_id, QuotaRow.version == version
    )
    return await changed_one(session, guarded.values(values))


async def policies(session: AsyncSession) -> dict[str, PolicyRow]:
    return {row.name: row for row in await session.scalars(select(PolicyRow))}


async def policy(session: AsyncSession, name: str) -> PolicyRow | None:
    return await session.get(PolicyRow, name, populate_existing=True)


async def write_policy(
    session: AsyncSession, name: str, version: int, value: dict[str, Any], actor: str, now: datetime
) -> bool:
    """As `write_quota`."""
    values = {"value": value, "version": version + 1, "updated_at": now, "updated_by": actor}
    if version == 0:
        session.add(PolicyRow(name=name, **values))
        await session.flush()
        return True
    guarded = update(PolicyRow).where(PolicyRow.name == name, PolicyRow.version == version)
    return await changed_one(session, guarded.values(values))
