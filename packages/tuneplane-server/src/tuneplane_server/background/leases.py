"""Leases: one process works on a row in a role at a time, and whoever lost its lease writes nothing.

A claim writes a new token. A write checks, in its own transaction, that the token is still there; a process that was
paused past its lease finds another token and changes no row. A lease is kept over many ticks and renewed, so that
watching many rows costs few writes.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, literal, or_, select, true, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.background.tables import LeaseRow
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.db.lists import among, listed

FORGOTTEN_AFTER = timedelta(days=1)  # rows of jobs that ended while they backed off
_LEASES: Any = LeaseRow.__table__.c
_NO_OBJECTS: Any = {"synchronize_session": False}  # that the session would have to keep in step
BACKOFF_FIRST, BACKOFF_MOST = timedelta(seconds=1), timedelta(minutes=2)


@dataclass(frozen=True)
class Lease:
    """`failures`: how often the row's handler has failed in a row."""

    role: str
    row_id: str
    token: str
    failures: int


class Leases:
    """`owner` names this installation (not this process): after a crash it may take its own leases back at once."""

    def __init__(self, database: Database, clock: Clock, owner: str, lifetime: timedelta) -> None:
        self._database, self._clock, self._owner = database, clock, owner
        self.lifetime = lifetime
        self._insert = sqlite.insert if database.is_sqlite else postgresql.insert

    async def forget_own(self) -> None:
        """At start: what this installation held before it ended is held by nobody. Failures are remembered."""
        async with self._database.begin() as session:
            values = {"expires_at": self._clock.now(), "not_before": None, "token": secrets.token_hex(16)}
            await session.execute(update(LeaseRow).where(LeaseRow.owner == self._owner).values(**values))
            await session.execute(delete(LeaseRow).where(LeaseRow.expires_at < self._clock.now() - FORGOTTEN_AFTER))

    async def claim(self, role: str, row_ids: Sequence[str]) -> list[Lease]:
        """Claim, in one statement, those of the rows that nobody holds and that do not back off."""
        if not row_ids:
            return []
        now, token = self._clock.now(), secrets.token_hex(16)
        same = {
            "role": role, "owner": self._owner, "token": token, "expires_at": now + self.lifetime, "failures": 0,
        }  # fmt: skip
        free = and_(LeaseRow.expires_at <= now, or_(LeaseRow.not_before.is_(None), LeaseRow.not_before <= now))
        async with self._database.begin() as session:
            rows = listed(session, row_ids)
            values = [literal(value, _LEASES[name].type) for name, value in same.items()]
            # SQLite reads a join in ON CONFLICT unless the select has a WHERE.
            statement = self._insert(LeaseRow).from_select(
                ["row_id", *same], select(rows.c.value, *values).where(true())
            )
            taken = {name: statement.excluded[name] for name in ("owner", "token", "expires_at", "not_before")}
            upsert = statement.on_conflict_do_update(index_elements=["role", "row_id"], set_=taken, where=free)
            claimed = await session.execute(upsert.returning(LeaseRow.row_id, LeaseRow.failures))
            return [Lease(role, row_id, token, failures) for row_id, failures in claimed]

    async def renew(self, leases: Sequence[Lease]) -> set[str]:
        """Extend leases of one role; returns the row ids that are still ours."""
        if not leases:
            return set()
        async with self._database.begin() as session:
            statement = (
                update(LeaseRow).where(_any_of(session, leases)).values(expires_at=self._clock.now() + self.lifetime)
            )
            return set(await session.scalars(statement.returning(LeaseRow.row_id).execution_options(**_NO_OBJECTS)))

    async def release(self, leases: Iterable[Lease]) -> None:
        """Done with these rows for now: anybody may claim them at once, and their failures are forgotten."""
        held = list(leases)
        if held:
            async with self._database.begin() as session:
                await session.execute(delete(LeaseRow).where(_any_of(session, held)).execution_options(**_NO_OBJECTS))

    async def fail(self, lease: Lease) -> timedelta:
        """The handler failed: the row rests, longer each time, and nothing else waits for it. Returns how long."""
        rest = min(BACKOFF_MOST, BACKOFF_FIRST * 2 ** min(lease.failures, 10))
        now = self._clock.now()
        async with self._database.begin() as session:
            values = {"failures": lease.failures + 1, "not_before": now + rest, "expires_at": now}
            await session.execute(update(LeaseRow).where(_is(lease)).values(**values))
        return rest


async def still_held(session: AsyncSession, lease: Lease) -> bool:
    """Whether the lease is still ours, asked inside the transaction that writes; its row is locked until that ends."""
    return (await session.scalar(select(LeaseRow.token).where(_is(lease)).with_for_update())) is not None


def _is(lease: Lease) -> ColumnElement[bool]:
    return and_(LeaseRow.role == lease.role, LeaseRow.row_id == lease.row_id, LeaseRow.token == lease.token)


def _any_of(session: AsyncSession, leases: Sequence[Lease]) -> ColumnElement[bool]:
    """Leases of one role; tokens are random, so a token and a row id of different leases never meet."""
    return and_(
        LeaseRow.role == leases[0].role,
        among(session, LeaseRow.row_id, [lease.row_id for lease in leases]),
        among(session, LeaseRow.token, sorted({lease.token for lease in leases})),
    )
