"""SQL of the accounts. Changes that must happen once are guarded updates; their row count says who was first."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.db.guards import changed_one
from tuneplane_server.features.accounts.tables import ApiTokenRow, DeviceCodeRow, SetupTokenRow, UserRow


async def has_users(session: AsyncSession) -> bool:
    return (await session.scalar(select(UserRow.id).limit(1))) is not None


async def user_by_id(session: AsyncSession, user_id: str) -> UserRow | None:
    return await session.get(UserRow, user_id)


async def user_by_name(session: AsyncSession, username: str, *, lock: bool = False) -> UserRow | None:
    """`lock`: until the transaction ends (SQLite's one writer is the lock there)."""
    query = select(UserRow).where(UserRow.username_key == username.lower())
    return await session.scalar(query.with_for_update() if lock else query)


async def names(session: AsyncSession, user_ids: Collection[str]) -> dict[str, str]:
    query = select(UserRow.id, UserRow.username).where(UserRow.id.in_(user_ids))
    return dict((await session.execute(query)).all())


async def users(session: AsyncSession) -> list[UserRow]:
    return list(await session.scalars(select(UserRow).order_by(UserRow.username_key)))


async def token_by_digest(session: AsyncSession, digest: str) -> tuple[ApiTokenRow, UserRow] | None:
    query = select(ApiTokenRow, UserRow).join(UserRow, UserRow.id == ApiTokenRow.user_id)
    row = (await session.execute(query.where(ApiTokenRow.digest == digest))).one_or_none()
    return None if row is None else (row[0], row[1])


async def tokens_of(session: AsyncSession, user_id: str) -> list[ApiTokenRow]:
    query = select(ApiTokenRow).where(ApiTokenRow.user_id == user_id, ApiTokenRow.revoked_at.is_(None))
    return list(await session.scalars(query.order_by(ApiTokenRow.created_at.desc(), ApiTokenRow.id.desc())))


async def live_token_count(session: AsyncSession, user_id: str) -> int:
    query = select(func.count()).where(ApiTokenRow.user_id == user_id, ApiTokenRow.revoked_at.is_(None))
    return await session.scalar(query) or 0


async def revoke_token(session: AsyncSession, user_id: str, token_id: str, now: datetime) -> bool:
    return await changed_one(
        session,
        update(ApiTokenRow)
        .where(ApiTokenRow.id == token_id, ApiTokenRow.user_id == user_id, ApiTokenRow.revoked_at.is_(None))
        .values(revoked_at=now),
    )


async def touch_token(session: AsyncSession, token_id: str, now: datetime) -> None:
    await session.execute(update(ApiTokenRow).where(ApiTokenRow.id == token_id).values(last_used_at=now))


async def device_by_digest(session: AsyncSession, digest: str) -> DeviceCodeRow | None:
    return await session.scalar(select(DeviceCodeRow).where(DeviceCodeRow.digest == digest))


async def device_by_user_code(session: AsyncSession, user_code: str) -> DeviceCodeRow | None:
    return await session.scalar(select(DeviceCodeRow).where(DeviceCodeRow.user_code == user_code))


async def decide_device(session: AsyncSession, user_code: str, user_id: str, *, approved: bool, now: datetime) -> bool:
    return await changed_one(
        session,
        update(DeviceCodeRow)
        .where(DeviceCodeRow.user_code == user_code, DeviceCodeRow.decided_at.is_(None), DeviceCodeRow.expires_at > now)
        .values(user_id=user_id, approved=approved, decided_at=now),
    )


async def consume_device(session: AsyncSession, device_id: str, now: datetime) -> bool:
    return await changed_one(
        session,
        update(DeviceCodeRow)
        .where(DeviceCodeRow.id == device_id, DeviceCodeRow.approved.is_(True), DeviceCodeRow.consumed_at.is_(None))
        .values(consumed_at=now),
    )


async def newest_setup_token(session: AsyncSession) -> SetupTokenRow | None:
    query = select(SetupTokenRow).order_by(SetupTokenRow.created_at.desc(), SetupTokenRow.id.desc()).limit(1)
    return await session.scalar(query)


async def use_setup_token(session: AsyncSession, token_id: str, now: datetime) -> bool:
    return await changed_one(
        session,
        update(SetupTokenRow).where(SetupTokenRow.id == token_id, SetupTokenRow.used_at.is_(None)).values(used_at=now),
    )
