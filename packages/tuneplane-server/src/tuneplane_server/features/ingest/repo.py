"""SQL of ingest tokens and heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.db.lists import among
from tuneplane_server.features.ingest.tables import HeartbeatRow, IngestTokenRow


class Heard(NamedTuple):
    """The newest heartbeat of a machine, as `HeartbeatRow` has it; of five hundred runs a role reads them again and again."""

    job_id: str
    attempt: int
    rank: int
    state: str
    sent_at: float
    received_at: datetime


_HEARD = tuple(getattr(HeartbeatRow, name) for name in Heard._fields)


async def tokens_by_id(session: AsyncSession, token_ids: Sequence[str]) -> dict[str, IngestTokenRow]:
    query = select(IngestTokenRow).where(IngestTokenRow.id.in_(token_ids))
    return {row.id: row for row in await session.scalars(query)}


async def revoke(session: AsyncSession, job_id: str, attempt: int | None, now: datetime) -> None:
    statement = update(IngestTokenRow).where(IngestTokenRow.job_id == job_id, IngestTokenRow.revoked_at.is_(None))
    if attempt is not None:
        statement = statement.where(IngestTokenRow.attempt == attempt)
    await session.execute(statement.values(revoked_at=now).execution_options(synchronize_session=False))


async def forget_expired(session: AsyncSession, before: datetime) -> None:
    """Those of senders outside of the job stay as long as the run: their ranks must not be given out again."""
    statement = delete(IngestTokenRow).where(IngestTokenRow.expires_at < before, IngestTokenRow.rank.is_(None))
    await session.execute(statement.execution_options(synchronize_session=False))


async def outside_ranks(session: AsyncSession, job_id: str, attempt: int, now: datetime) -> tuple[int | None, int]:
    """(the highest rank ever given to a sender outside of the job, how many of their tokens are good)."""
    mine = (IngestTokenRow.job_id == job_id, IngestTokenRow.attempt == attempt, IngestTokenRow.rank.is_not(None))
    good = (IngestTokenRow.revoked_at.is_(None), IngestTokenRow.expires_at > now)
    highest = await session.scalar(select(func.max(IngestTokenRow.rank)).where(*mine))
    count = await session.scalar(select(func.count()).select_from(IngestTokenRow).where(*mine, *good))
    return highest, count or 0


async def save_heartbeats(session: AsyncSession, beats: Sequence[dict[str, object]]) -> None:
    """Each: the columns of `ingest_heartbeats`, of a machine only one. The newest by arrival stays."""
    dialect = session.get_bind().dialect.name
    insert = sqlite.insert(HeartbeatRow) if dialect == "sqlite" else postgresql.insert(HeartbeatRow)
    new = insert.excluded
    statement = insert.on_conflict_do_update(
        index_elements=["job_id", "attempt", "rank"],
        set_={"state": new.state, "sent_at": new.sent_at, "received_at": new.received_at},
    )
    await session.execute(statement, list(beats))


async def heartbeats(session: AsyncSession, job_id: str, attempt: int) -> list[HeartbeatRow]:
    query = select(HeartbeatRow).where(HeartbeatRow.job_id == job_id, HeartbeatRow.attempt == attempt)
    return list(await session.scalars(query.order_by(HeartbeatRow.rank)))


async def heartbeats_of(session: AsyncSession, job_ids: Sequence[str]) -> list[Heard]:
    """Of every attempt of these runs."""
    query = select(*_HEARD).where(among(session, HeartbeatRow.job_id, job_ids))
    return [Heard(*row) for row in await session.execute(query.order_by(HeartbeatRow.job_id, HeartbeatRow.rank))]


async def forget(session: AsyncSession, job_id: str) -> None:
    """Delete what is kept of a run."""
    for table in (IngestTokenRow, HeartbeatRow):
        statement = delete(table).where(table.job_id == job_id)
        await session.execute(statement.execution_options(synchronize_session=False))
