"""SQL of sweeps and their trials. `readable` is in every query that answers a person: a user sees only own sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, func, select, true, update
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.db.guards import changed_one
from tuneplane_server.domain.sweeps import ACTIVE
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.sweeps.tables import SweepRow, TrialRow


def readable(principal: Principal) -> ColumnElement[bool]:
    return true() if principal.acts_as_admin else SweepRow.owner_id == principal.user_id


async def get_readable(session: AsyncSession, principal: Principal, sweep_id: str) -> SweepRow | None:
    return await session.scalar(select(SweepRow).where(SweepRow.id == sweep_id, readable(principal)))


async def list_readable(
    session: AsyncSession,
    principal: Principal,
    *,
    owner: str | None,
    project: str | None,
    states: Sequence[str],
    before: str | None,
    limit: int,
) -> list[SweepRow]:
    """Newest first; ids sort by time."""
    statement = select(SweepRow).where(readable(principal))
    for column, wanted in ((SweepRow.owner, owner), (SweepRow.project, project)):
        if wanted is not None:
            statement = statement.where(column == wanted)
    if states:
        statement = statement.where(SweepRow.state.in_(states))
    if before is not None:
        statement = statement.where(SweepRow.id < before)
    return list(await session.scalars(statement.order_by(SweepRow.id.desc()).limit(limit)))


async def get(session: AsyncSession, sweep_id: str) -> SweepRow | None:
    return await session.get(SweepRow, sweep_id)


async def lock(session: AsyncSession, sweep_id: str) -> SweepRow | None:
    """The row, locked until the transaction ends (SQLite's one writer is the lock there)."""
    return await session.get(SweepRow, sweep_id, with_for_update=True, populate_existing=True)


async def write(session: AsyncSession, row: SweepRow, values: dict[str, Any]) -> bool:
    """Change the sweep if it is still at the version of `row`; the version goes up by one."""
    guarded = update(SweepRow).where(SweepRow.id == row.id, SweepRow.version == row.version)
    return await changed_one(session, guarded.values({**values, "version": row.version + 1}))


async def by_key(session: AsyncSession, owner_id: str, key: str) -> SweepRow | None:
    return await session.scalar(select(SweepRow).where(SweepRow.owner_id == owner_id, SweepRow.request_key == key))


async def active(session: AsyncSession) -> list[str]:
    """Ids of the sweeps that have something left to do."""
    query = select(SweepRow.id).where(SweepRow.state.in_(ACTIVE)).order_by(SweepRow.id)
    return list(await session.scalars(query))


async def count_active(session: AsyncSession, owner_id: str) -> int:
    query = select(func.count()).where(SweepRow.owner_id == owner_id, SweepRow.state.in_(ACTIVE))
    return await session.scalar(query) or 0


# --- trials -----------------------------------------------------------------------------------------------------------


async def trials(session: AsyncSession, sweep_id: str) -> list[TrialRow]:
    query = select(TrialRow).where(TrialRow.sweep_id == sweep_id).order_by(TrialRow.number)
    return list(await session.scalars(query))


async def counts(session: AsyncSession, sweep_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """Sweep -> state of trials -> how many."""
    query = select(TrialRow.sweep_id, TrialRow.state, func.count()).where(TrialRow.sweep_id.in_(sweep_ids))
    found: dict[str, dict[str, int]] = {sweep_id: {} for sweep_id in sweep_ids}
    for sweep_id, state, count in await session.execute(query.group_by(TrialRow.sweep_id, TrialRow.state)):
        found[sweep_id][state] = count
    return found


async def best_values(session: AsyncSession, sweep_ids: Sequence[str], goal: str) -> dict[str, float]:
    """Sweep -> the best value of its trials that succeeded; of those that look for `goal`."""
    choose = func.max if goal == "max" else func.min
    query = select(TrialRow.sweep_id, choose(TrialRow.value)).where(
        TrialRow.sweep_id.in_(sweep_ids), TrialRow.state == "succeeded", TrialRow.value.is_not(None)
    )
    return dict((await session.execute(query.group_by(TrialRow.sweep_id))).all())


async def write_trial(session: AsyncSession, trial: TrialRow, values: dict[str, Any]) -> bool:
    """Change the trial if it is in the state and at the try of `trial` still."""
    guarded = update(TrialRow).where(
        TrialRow.sweep_id == trial.sweep_id,
        TrialRow.number == trial.number,
        TrialRow.state == trial.state,
        TrialRow.tries == trial.tries,
    )
    return await changed_one(session, guarded.values(values))


async def trial_in(session: AsyncSession, sweep_id: str, number: int) -> tuple[SweepRow, TrialRow] | None:
    joined = select(SweepRow, TrialRow).join(TrialRow, TrialRow.sweep_id == SweepRow.id)
    found = (await session.execute(joined.where(SweepRow.id == sweep_id, TrialRow.number == number))).first()
    return None if found is None else (found[0], found[1])
