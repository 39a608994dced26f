"""SQL of the projects."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.features.projects.tables import ProjectRow


async def by_name(session: AsyncSession, owner_id: str, name: str) -> ProjectRow | None:
    return await session.scalar(select(ProjectRow).where(ProjectRow.owner_id == owner_id, ProjectRow.name == name))


async def by_owner_name(session: AsyncSession, owner: str, name: str) -> ProjectRow | None:
    return await session.scalar(select(ProjectRow).where(ProjectRow.owner == owner, ProjectRow.name == name))


async def names(session: AsyncSession, project_ids: Collection[str]) -> dict[str, str]:
    query = select(ProjectRow.id, ProjectRow.owner, ProjectRow.name).where(ProjectRow.id.in_(project_ids))
    return {project_id: f"{owner}/{name}" for project_id, owner, name in await session.execute(query)}


async def of_owner(session: AsyncSession, owner_id: str | None) -> list[ProjectRow]:
    """All projects when `owner_id` is None."""
    query = select(ProjectRow).order_by(ProjectRow.owner, ProjectRow.name)
    return list(await session.scalars(query if owner_id is None else query.where(ProjectRow.owner_id == owner_id)))
