"""SQL of rules, states and notifications."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.db.lists import among
from tuneplane_server.domain.alerts import Stage
from tuneplane_server.features.alerts.tables import AlertRuleRow, AlertStateRow, NotificationRow

ENDED = "fired"  # stage of what is told about the end of a run

_STATES: Any = AlertStateRow.__table__


# --- rules --------------------------------------------------------------------------------------------------------------


async def rules(session: AsyncSession, project_ids: Sequence[str] | None = None) -> list[AlertRuleRow]:
    """Those that were set, of these projects (None: of all)."""
    query = select(AlertRuleRow).order_by(AlertRuleRow.project_id, AlertRuleRow.name)
    if project_ids is not None:
        query = query.where(AlertRuleRow.project_id.in_(project_ids))
    return list(await session.scalars(query))


async def rule(session: AsyncSession, project_id: str, name: str) -> AlertRuleRow | None:
    return await session.get(AlertRuleRow, (project_id, name))


# --- states -------------------------------------------------------------------------------------------------------------


async def states(session: AsyncSession, job_ids: Sequence[str]) -> list[AlertStateRow]:
    if not job_ids:
        return []
    return list(await session.scalars(select(AlertStateRow).where(among(session, AlertStateRow.job_id, job_ids))))


async def open_states(session: AsyncSession) -> list[AlertStateRow]:
    """Those that are pending or firing, of whatever run."""
    query = select(AlertStateRow).where(AlertStateRow.stage.in_([Stage.PENDING, Stage.FIRING]))
    return list(await session.scalars(query))


async def firing(session: AsyncSession, project_id: str, limit: int) -> list[AlertStateRow]:
    """What fires now in a project, the newest first."""
    mine = (AlertStateRow.project_id == project_id, AlertStateRow.stage == Stage.FIRING)
    return list(
        await session.scalars(select(AlertStateRow).where(*mine).order_by(AlertStateRow.since.desc()).limit(limit))
    )


async def add_state(session: AsyncSession, values: dict[str, Any]) -> bool:
    """False when there is one already: somebody else saw the same."""
    dialect = sqlite if session.get_bind().dialect.name == "sqlite" else postgresql
    statement = dialect.insert(AlertStateRow).values(values | {"version": 1}).on_conflict_do_nothing()
    return (await session.execute(statement.returning(_STATES.c.version))).first() is not None


async def change_state(session: AsyncSession, seen: AlertStateRow, values: dict[str, Any] | None) -> bool:
    """Write what `seen` became, or delete it (None); False when it is not what was seen any more."""
    mine = (_STATES.c.job_id == seen.job_id, _STATES.c.rule == seen.rule, _STATES.c.version == seen.version)
    if values is None:
        statement: Any = delete(_STATES).where(*mine)
    else:
        statement = update(_STATES).where(*mine).values(**values, version=seen.version + 1)
    result: Any = await session.execute(statement)
    return result.rowcount == 1


async def forget_ended(session: AsyncSession, before: datetime) -> None:
    """Of runs that ended long ago: nobody looks at them again."""
    await session.execute(delete(_STATES).where(_STATES.c.stage == ENDED, _STATES.c.since < before))


# --- notifications ------------------------------------------------------------------------------------------------------


async def unread(session: AsyncSession, user_id: str, limit: int) -> int:
    """At most `limit`: a bell says “99+” and needs no more."""
    mine = select(NotificationRow.id).where(NotificationRow.user_id == user_id, NotificationRow.read_at.is_(None))
    return await session.scalar(select(func.count()).select_from(mine.limit(limit).subquery())) or 0


async def notifications(
    session: AsyncSession, user_id: str, *, before: str | None, limit: int, unread_only: bool
) -> list[NotificationRow]:
    """The newest first."""
    row = NotificationRow
    query = select(row).where(row.user_id == user_id).order_by(row.id.desc()).limit(limit)
    if before is not None:
        query = query.where(row.id < before)
    return list(await session.scalars(query.where(row.read_at.is_(None)) if unread_only else query))


async def mark_read(session: AsyncSession, user_id: str, ids: Sequence[str] | None, now: datetime) -> None:
    """`ids` None: everything."""
    row = NotificationRow
    statement = update(row).where(row.user_id == user_id, row.read_at.is_(None)).values(read_at=now)
    await session.execute(statement if ids is None else statement.where(row.id.in_(ids)))


async def prune_notifications(session: AsyncSession, read_before: datetime, before: datetime) -> None:
    row = NotificationRow
    old: ColumnElement[bool] = or_(row.created_at < before, row.read_at < read_before)
    await session.execute(delete(row).where(old))
