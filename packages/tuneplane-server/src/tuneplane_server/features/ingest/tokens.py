"""Tokens of running attempts: `tpi_<id>_<secret>`. The id finds the row, the secret is compared with its SHA-256.

A token lives for `LIFETIME`; in its second half a heartbeat brings the next one, and the old one stays good until it
expires, so an answer that got lost costs nothing. Lifetimes are long because a console may be away for days while a run goes
on; what ends a token early is its revocation.

A good token is remembered for a few seconds: a runner sends once a second, and looking its row up was a quarter of what a
small batch costs. This console forgets what it revokes at once; another one that shares the database within those seconds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from typing import Literal

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane.contract.words import OUTSIDE_RANK
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.features.accounts.secrets import digest, matches, new_secret
from tuneplane_server.features.ingest import repo
from tuneplane_server.features.ingest.tables import IngestTokenRow
from tuneplane_server.grouping import Grouped

MAX_LENGTH = 200
PREFIX = "tpi_"  # secret scanners can look for it
LIFETIME = timedelta(days=14)
KEEP_EXPIRED = timedelta(days=30)
REMEMBER_SECONDS = 5.0
REMEMBERED = 4096
OUTSIDE_TOKENS = 32  # good at once, of one attempt
OUTSIDE_TRIES = 5
_NO_DIGEST = digest("")

type Still = Callable[[AsyncSession], Awaitable[None]]


@dataclass(frozen=True)
class Grant:
    """What a token is good for. `rank`: the only one that a sender outside of the job may send as; None: every rank."""

    token_id: str
    job_id: str
    attempt: int
    expires_at: datetime
    rank: int | None = None


@dataclass(frozen=True)
class OutsideToken:
    """For a sender outside of the job; `token` is shown once."""

    token: str
    attempt: int
    rank: int
    expires_at: datetime


class TooManyTokensError(Exception):
    """`OUTSIDE_TOKENS` of an attempt are good at the same time."""


@dataclass(frozen=True)
class Denied:
    """`unknown` and `expired` are for nobody (401); `revoked` and a grant for another run are for somebody else (403)."""

    why: Literal["unknown", "expired", "revoked"]
    token_id: str = ""


class IngestTokens:
    def __init__(self, database: Database, clock: Clock, lifetime: timedelta = LIFETIME) -> None:
        self._database, self._clock, self._lifetime = database, clock, lifetime
        # Digest of a whole token -> (grant, monotonic seconds until when it is believed).
        self._known: OrderedDict[str, tuple[Grant, float]] = OrderedDict()
        self._forgotten = 0
        self._rows = Grouped(self._read)

    async def issue(self, job_id: str, attempt: int) -> str:
        """A fresh token for one attempt; earlier ones stay valid (a launch that is repeated must not cut off the first)."""
        now = self._clock.now()
        async with self._database.begin() as session:
            await repo.forget_expired(session, now - KEEP_EXPIRED)
            return self._add(session, job_id, attempt, now + self._lifetime)

    async def issue_outside(
        self, job_id: str, attempt: int, lifetime: timedelta, still: Still | None = None
    ) -> OutsideToken:
        """A token for a sender that is no process of the job, with a rank of its own, so that its sequences are its own too.
        `still`: asked in the transaction; raises when the attempt is over. Raises `TooManyTokensError`."""
        for _time in range(OUTSIDE_TRIES):
            try:
                async with self._database.begin() as session:
                    if still is not None:
                        await still(session)
                    now = self._clock.now()
                    highest, good = await repo.outside_ranks(session, job_id, attempt, now)
                    if good >= OUTSIDE_TOKENS:
                        raise TooManyTokensError
                    rank = OUTSIDE_RANK if highest is None else highest + 1
                    token = self._add(session, job_id, attempt, now + lifetime, rank)
                return OutsideToken(token, attempt, rank, now + lifetime)
            except IntegrityError:
                continue  # another took the rank at the same moment
        raise TooManyTokensError

    def _add(
        self, session: AsyncSession, job_id: str, attempt: int, expires_at: datetime, rank: int | None = None
    ) -> str:
        token_id, secret = self._clock.new_id(), new_secret()
        session.add(
            IngestTokenRow(
                id=token_id,
                job_id=job_id,
                attempt=attempt,
                digest=digest(secret),
                issued_at=self._clock.now(),
                expires_at=expires_at,
                revoked_at=None,
                rank=rank,
            )
        )
        return f"{PREFIX}{token_id}_{secret}"

    async def check(self, token: str) -> Grant | Denied:
        if len(token) > MAX_LENGTH:
            return Denied("unknown")
        whole = digest(token)
        grant, until = self._known.get(whole, (None, 0.0))
        if grant is not None and monotonic() < until and grant.expires_at > self._clock.now():
            return grant
        self._known.pop(whole, None)
        before = self._forgotten
        found = await self._look_up(token)
        if isinstance(found, Grant) and before == self._forgotten:  # else it may have been revoked since it was read
            self._known[whole] = (found, monotonic() + REMEMBER_SECONDS)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return found

    async def _look_up(self, token: str) -> Grant | Denied:
        token_id, _underscore, secret = token.removeprefix(PREFIX).partition("_")
        row = None
        if token.startswith(PREFIX) and "\0" not in token_id and len(token_id) <= 16:
            row = await self._rows.ask(token_id)
        # Compared also when there is no row: the time must not tell which ids exist.
        if not matches(secret, row.digest if row else _NO_DIGEST) or row is None:
            return Denied("unknown")
        if row.revoked_at is not None:
            return Denied("revoked", row.id)
        if row.expires_at <= self._clock.now():
            return Denied("expired", row.id)
        return Grant(row.id, row.job_id, row.attempt, row.expires_at, row.rank)

    async def _read(self, token_ids: Sequence[str]) -> Sequence[IngestTokenRow | None]:
        async with self._database.session() as session:
            found = await repo.tokens_by_id(session, sorted(set(token_ids)))
        return [found.get(token_id) for token_id in token_ids]

    async def renewed(self, grant: Grant) -> str | None:
        """The next token when this one is in the second half of its life."""
        if grant.expires_at - self._clock.now() > self._lifetime / 2:
            return None
        return await self.issue(grant.job_id, grant.attempt)

    async def revoke(self, job_id: str, attempt: int | None = None) -> None:
        """No token of the attempt (None: of any) is good any more."""
        async with self._database.begin() as session:
            await repo.revoke(session, job_id, attempt, self._clock.now())
        self.forget(job_id, attempt)

    def forget(self, job_id: str, attempt: int | None = None) -> None:
        """Remember none of the attempt's tokens (None: of any)."""
        self._forgotten += 1
        for whole, (grant, _until) in list(self._known.items()):
            if grant.job_id == job_id and attempt in (None, grant.attempt):
                del self._known[whole]
