"""SQL of webhooks and of what is sent to them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.features.alerts.tables import DeliveryRow, WebhookRow

IN_FLIGHT = 2  # of one webhook at the same time
PENDING, DELIVERED, FAILED = "pending", "delivered", "failed"

_DELIVERIES: Any = DeliveryRow.__table__


async def of_project(session: AsyncSession, project_id: str) -> list[WebhookRow]:
    query = select(WebhookRow).where(WebhookRow.project_id == project_id).order_by(WebhookRow.id)
    return list(await session.scalars(query))


async def webhook(session: AsyncSession, webhook_id: str) -> WebhookRow | None:
    return await session.get(WebhookRow, webhook_id)


async def remove(session: AsyncSession, webhook_id: str) -> None:
    await session.execute(delete(DeliveryRow).where(DeliveryRow.webhook_id == webhook_id))
    await session.execute(delete(WebhookRow).where(WebhookRow.id == webhook_id))


async def set_enabled(session: AsyncSession, webhook_id: str, enabled: bool, why: str) -> None:
    values = {"enabled": enabled, "disabled_why": why}
    await session.execute(update(WebhookRow).where(WebhookRow.id == webhook_id).values(**values))


async def deliveries(session: AsyncSession, webhook_id: str, *, before: str | None, limit: int) -> list[DeliveryRow]:
    """The newest first."""
    query = select(DeliveryRow).where(DeliveryRow.webhook_id == webhook_id).order_by(DeliveryRow.id.desc()).limit(limit)
    return list(await session.scalars(query if before is None else query.where(DeliveryRow.id < before)))


async def delivery(session: AsyncSession, delivery_id: str) -> DeliveryRow | None:
    return await session.get(DeliveryRow, delivery_id)


async def due(session: AsyncSession, now: datetime, limit: int) -> list[str]:
    """Ids of what is to be sent now, the longest due first; of one webhook the first `IN_FLIGHT` only, so that neither a slow
    receiver nor one with much to get is in the way of the others. What is being sent is still one of them."""
    order = (DeliveryRow.next_at, DeliveryRow.id)
    turn = func.row_number().over(partition_by=DeliveryRow.webhook_id, order_by=order).label("turn")
    mine = (DeliveryRow.state == PENDING, DeliveryRow.next_at <= now)
    waiting = select(DeliveryRow.id, DeliveryRow.next_at, turn).where(*mine).subquery()
    first = select(waiting.c.id).where(waiting.c.turn <= IN_FLIGHT).order_by(waiting.c.next_at, waiting.c.id)
    return list(await session.scalars(first.limit(limit)))


async def pending(session: AsyncSession, webhook_id: str) -> int:
    """How many of a webhook's are not sent and not given up."""
    mine = (DeliveryRow.webhook_id == webhook_id, DeliveryRow.state == PENDING)
    return int(await session.scalar(select(func.count()).select_from(DeliveryRow).where(*mine)) or 0)


async def write(session: AsyncSession, seen: DeliveryRow, values: dict[str, Any]) -> bool:
    """False when it is not what was seen any more: somebody else has sent it."""
    mine = (_DELIVERIES.c.id == seen.id, _DELIVERIES.c.version == seen.version)
    result: Any = await session.execute(update(_DELIVERIES).where(*mine).values(**values, version=seen.version + 1))
    return result.rowcount == 1


async def counts(session: AsyncSession) -> dict[str, int]:
    """State -> deliveries; for the console's own metrics."""
    rows = await session.execute(select(DeliveryRow.state, func.count()).group_by(DeliveryRow.state))
    return {str(state): int(count) for state, count in rows}


async def prune(session: AsyncSession, before: datetime) -> None:
    await session.execute(delete(DeliveryRow).where(DeliveryRow.state != PENDING, DeliveryRow.ended_at < before))


def add(session: AsyncSession, rows: Sequence[DeliveryRow]) -> None:
    session.add_all(rows)
