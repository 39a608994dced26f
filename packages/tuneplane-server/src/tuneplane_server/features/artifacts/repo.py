"""SQL of the artifact index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.features.artifacts.tables import ArtifactFileRow, ArtifactSetRow, CheckpointRow

FILES: Any = ArtifactFileRow.__table__
CHECKPOINTS: Any = CheckpointRow.__table__
SETS: Any = ArtifactSetRow.__table__


async def sets(session: AsyncSession, job_id: str) -> list[ArtifactSetRow]:
    query = select(ArtifactSetRow).where(ArtifactSetRow.job_id == job_id).order_by(ArtifactSetRow.attempt)
    return list(await session.scalars(query))


async def get_set(session: AsyncSession, job_id: str, attempt: int) -> ArtifactSetRow | None:
    return await session.get(ArtifactSetRow, (job_id, attempt))


async def files(session: AsyncSession, job_id: str) -> list[tuple[int, str, int, str | None]]:
    """(attempt, path, size, sha256) by attempt and path."""
    query = (
        select(FILES.c.attempt, FILES.c.path, FILES.c.size, FILES.c.sha256)
        .where(FILES.c.job_id == job_id)
        .order_by(FILES.c.attempt, FILES.c.path)
    )
    return [tuple(row) for row in await session.execute(query)]  # type: ignore[misc]


async def checkpoints(session: AsyncSession, job_id: str) -> list[CheckpointRow]:
    query = (
        select(CheckpointRow)
        .where(CheckpointRow.job_id == job_id)
        .order_by(CheckpointRow.attempt, CheckpointRow.step, CheckpointRow.path)
    )
    return list(await session.scalars(query))


async def find_file(
    session: AsyncSession, job_id: str, attempt: int | None, path: str
) -> tuple[ArtifactFileRow, str] | None:
    """The file of the attempt (None: of the newest that has it) and the attempt's out dir."""
    query = (
        select(ArtifactFileRow, ArtifactSetRow.out_dir)
        .join(
            ArtifactSetRow,
            (ArtifactSetRow.job_id == ArtifactFileRow.job_id) & (ArtifactSetRow.attempt == ArtifactFileRow.attempt),
        )
        .where(ArtifactFileRow.job_id == job_id, ArtifactFileRow.path == path)
        .order_by(ArtifactFileRow.attempt.desc())
        .limit(1)
    )
    if attempt is not None:
        query = query.where(ArtifactFileRow.attempt == attempt)
    row = (await session.execute(query)).first()
    return None if row is None else (row[0], row[1])


async def known_digests(session: AsyncSession, job_id: str, attempt: int) -> dict[str, tuple[int, str]]:
    """path -> (size, sha256) of what is hashed already."""
    query = select(FILES.c.path, FILES.c.size, FILES.c.sha256).where(
        FILES.c.job_id == job_id, FILES.c.attempt == attempt, FILES.c.sha256.is_not(None)
    )
    return {path: (size, sha256) for path, size, sha256 in await session.execute(query)}


async def replace(
    session: AsyncSession, row: ArtifactSetRow, found: Sequence[dict[str, Any]], points: Sequence[dict[str, Any]]
) -> None:
    """`found`, `points`: the columns of `artifact_files` and `artifact_checkpoints`."""
    for table in (FILES, CHECKPOINTS):
        await session.execute(delete(table).where(table.c.job_id == row.job_id, table.c.attempt == row.attempt))
    row.bytes = sum(int(item["size"]) for item in found)
    await session.merge(row)
    await session.flush()
    if found:
        await session.execute(insert(FILES), found)
    if points:
        await session.execute(insert(CHECKPOINTS), points)


async def unhashed(session: AsyncSession, job_id: str, attempt: int | None, limit: int) -> list[tuple[int, str, str]]:
    """(attempt, path, out dir) of files without a digest that nothing speaks against, smallest first."""
    query = (
        select(ArtifactFileRow.attempt, ArtifactFileRow.path, ArtifactSetRow.out_dir)
        .join(
            ArtifactSetRow,
            (ArtifactSetRow.job_id == ArtifactFileRow.job_id) & (ArtifactSetRow.attempt == ArtifactFileRow.attempt),
        )
        .where(ArtifactFileRow.job_id == job_id, ArtifactFileRow.sha256.is_(None), ArtifactFileRow.problem.is_(None))
        .order_by(ArtifactFileRow.size, ArtifactFileRow.attempt, ArtifactFileRow.path)
        .limit(limit)
    )
    if attempt is not None:
        query = query.where(ArtifactFileRow.attempt == attempt)
    return [(row[0], row[1], row[2]) for row in await session.execute(query)]


async def write_file(session: AsyncSession, job_id: str, attempt: int, path: str, values: dict[str, Any]) -> None:
    mine = (FILES.c.job_id == job_id, FILES.c.attempt == attempt, FILES.c.path == path)
    if "size" in values:
        before = select(FILES.c.size).where(*mine).scalar_subquery()
        of_set = update(SETS).where(SETS.c.job_id == job_id, SETS.c.attempt == attempt)
        await session.execute(of_set.values(bytes=SETS.c.bytes + func.coalesce(values["size"] - before, 0)))
    await session.execute(update(FILES).where(*mine).values(values))


async def count_unhashed(session: AsyncSession, job_id: str, attempt: int | None) -> int:
    query = (
        select(func.count())
        .select_from(FILES)
        .where(FILES.c.job_id == job_id, FILES.c.sha256.is_(None), FILES.c.problem.is_(None))
    )
    if attempt is not None:
        query = query.where(FILES.c.attempt == attempt)
    return (await session.scalar(query)) or 0


async def bytes_of(session: AsyncSession, job_ids: Select[str]) -> int:
    """By the attempts: a row of each, not of each of its files."""
    return int(await session.scalar(select(func.sum(SETS.c.bytes)).where(SETS.c.job_id.in_(job_ids))) or 0)


async def forget(session: AsyncSession, job_id: str) -> None:
    for table in (FILES, CHECKPOINTS, SETS):
        await session.execute(delete(table).where(table.c.job_id == job_id))
