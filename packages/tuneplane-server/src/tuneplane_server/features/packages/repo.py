"""SQL of the packages."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.features.packages.tables import PackageAccessRow, PackageRow


async def get(session: AsyncSession, digest: str) -> PackageRow | None:
    return await session.get(PackageRow, digest)


async def may_use(session: AsyncSession, digest: str, user_id: str) -> bool:
    return await session.get(PackageAccessRow, (digest, user_id)) is not None


async def put(session: AsyncSession, digest: str, user_id: str, size: int, now: datetime) -> None:
    """Record a package and who brought it; merging what another upload of the same bytes recorded."""
    await session.merge(PackageRow(digest=digest, size=size, created_at=now, last_used_at=now))
    await session.merge(PackageAccessRow(digest=digest, user_id=user_id, since=now))


async def touch(session: AsyncSession, digest: str, now: datetime) -> None:
    await session.execute(update(PackageRow).where(PackageRow.digest == digest).values(last_used_at=now))
