"""SQL of evaluations. `readable` is in every query that answers a person: a user sees only those of own runs."""

from __future__ import annotations

from sqlalchemy import ColumnElement, delete, or_, select, true, tuple_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.evaluation.place import Place
from tuneplane_server.features.evaluation.tables import EvaluationRow

_NO_REPORT = defer(EvaluationRow.report, raiseload=True)


def readable(principal: Principal) -> ColumnElement[bool]:
    return true() if principal.acts_as_admin else EvaluationRow.owner_id == principal.user_id


async def list_readable(
    session: AsyncSession,
    principal: Principal,
    *,
    owner: str | None,
    project: str | None,
    model: str | None,
    before: Place | None,
    limit: int,
) -> list[EvaluationRow]:
    """Newest first, without the reports; ids sort by time. `model`: a reference, a run, or the name that the job gives."""
    query = select(EvaluationRow).options(_NO_REPORT).where(readable(principal))
    for column, wanted in ((EvaluationRow.owner, owner), (EvaluationRow.project, project)):
        if wanted is not None:
            query = query.where(column == wanted)
    if model is not None:
        named = (EvaluationRow.model_ref, EvaluationRow.model_run, EvaluationRow.model_name)
        query = query.where(or_(*(column == model for column in named)))
    if before is not None:
        query = query.where(tuple_(EvaluationRow.job_id, EvaluationRow.attempt) < tuple_(*before))
    newest = query.order_by(EvaluationRow.job_id.desc(), EvaluationRow.attempt.desc())
    return list(await session.scalars(newest.limit(limit)))


async def of_run(session: AsyncSession, job_id: str, attempt: int | None) -> EvaluationRow | None:
    """Of the attempt; None: of the newest attempt that wrote one."""
    query = select(EvaluationRow).where(EvaluationRow.job_id == job_id)
    if attempt is not None:
        query = query.where(EvaluationRow.attempt == attempt)
    return await session.scalar(query.order_by(EvaluationRow.attempt.desc()).limit(1))


async def attempts(session: AsyncSession, job_id: str) -> list[EvaluationRow]:
    """Oldest first, without the reports."""
    query = select(EvaluationRow).options(_NO_REPORT).where(EvaluationRow.job_id == job_id)
    return list(await session.scalars(query.order_by(EvaluationRow.attempt)))


async def replace(session: AsyncSession, row: EvaluationRow) -> None:
    """The one row of its attempt, in place of what was there."""
    await session.merge(row)


async def remove(session: AsyncSession, job_id: str, attempt: int) -> None:
    mine = (EvaluationRow.job_id == job_id, EvaluationRow.attempt == attempt)
    await session.execute(delete(EvaluationRow).where(*mine))
