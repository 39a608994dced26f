"""Takes what running jobs send: authorises it, stores it exactly once, and tells the ledger what it must know."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog

from tuneplane.i18n import _
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.features.audit.service import AuditEntry, AuditService
from tuneplane_server.features.ingest import bodies, repo, wire
from tuneplane_server.features.ingest.gate import Gate
from tuneplane_server.features.ingest.signals import JobSignals, NoSignals
from tuneplane_server.features.ingest.tables import HeartbeatRow
from tuneplane_server.features.ingest.tokens import Denied, Grant, IngestTokens, OutsideToken, Still
from tuneplane_server.features.telemetry.records import Batch, EventRecord, Written
from tuneplane_server.features.telemetry.service import TelemetryService
from tuneplane_server.grouping import Grouped
from tuneplane_server.web.problems import ProblemError, refused

log = structlog.get_logger(__name__)

# Decoding more than this happens beside the event loop.
INLINE_BYTES = 16 * 1024
# The same refusal is audited once in this time: a sender that tries for ever must not fill the record.
# Of thousands of machines: each group is a commit, which keeps SQLite from everybody else for some milliseconds.
BEATS_REST_SECONDS = 0.1
AUDIT_SECONDS = 600.0
AUDIT_REMEMBERED = 1000
AUDITED_AT_MOST = 200  # in AUDIT_SECONDS, of all tokens
REPORTED = frozenset({"trainer-exited", "signal", "checkpoint", "warning", "gap", "log-quota"})


@dataclass(frozen=True)
class HeartbeatReply:
    desired: str
    token: str | None


class IngestService:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        telemetry: TelemetryService,
        audit: AuditService,
        signals: JobSignals | None = None,
    ) -> None:
        self._database, self._clock, self._telemetry, self._audit = database, clock, telemetry, audit
        self._signals = signals or NoSignals()
        self.tokens = IngestTokens(database, clock)
        self._beats = Grouped(self._save_beats, rest=BEATS_REST_SECONDS)
        self.gate = Gate()
        self._audited: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._noted: deque[float] = deque()

    def listen(self, signals: JobSignals) -> None:
        """Who hears of running jobs from now on; the jobs feature, once it is there."""
        self._signals = signals

    async def issue(self, job_id: str, attempt: int) -> str:
        """A token for the capsule of one attempt; shown once, kept only as its digest."""
        return await self.tokens.issue(job_id, attempt)

    async def issue_outside(
        self, job_id: str, attempt: int, lifetime: timedelta, who: str, address: str, still: Still | None = None
    ) -> OutsideToken:
        """A token for a script that is no process of the job. `still`: raises, in the transaction, when the attempt is over.
        Raises `TooManyTokensError`."""
        issued = await self.tokens.issue_outside(job_id, attempt, lifetime, still)
        data = {"attempt": attempt, "rank": issued.rank, "expires_at": issued.expires_at.isoformat()}
        await self._audit.record_alone(AuditEntry(who, "ingest.token", job_id, address, data))
        return issued

    async def revoke(self, job_id: str, attempt: int | None = None) -> None:
        await self.tokens.revoke(job_id, attempt)

    async def authorise(self, token: str, job_id: str, address: str) -> Grant:
        """The grant of `token` for this run. Raises 401 for a token nobody has, 403 for one of somebody else."""
        found = await self.tokens.check(token)
        if isinstance(found, Denied):
            if found.why == "revoked":
                await self._note(found.token_id, "revoked", job_id, address)
                raise refused("forbidden", _("this ingest token was revoked"), _("the attempt it belonged to is over"))
            if found.why == "expired":
                raise refused("token-invalid", _("this ingest token has expired"))
            raise refused("token-invalid", _("this ingest token is not known"))
        if found.job_id != job_id:
            await self._note(found.token_id, "foreign", job_id, address, token_job=found.job_id)
            raise refused("forbidden", _("this ingest token belongs to another run"))
        return found

    async def receive(self, grant: Grant, body: bytes, encoding: str, address: str = "") -> Written:
        """Store a batch. Raises a problem when it is refused; anything else that is raised stored nothing."""
        batch = await self._decoded(grant, body, encoding, address)
        if grant.rank is not None and not _is_only_of(batch, grant.rank):
            await self._note(grant.token_id, "foreign-rank", grant.job_id, address)
            text = _("this ingest token is for metrics and samples of rank {rank}")
            raise refused("forbidden", text.format(rank=grant.rank))
        written = await self._telemetry.store(grant.job_id, grant.attempt, batch)
        for event in written.events:
            await self._signal(grant, event)
        return written

    async def heartbeat(self, grant: Grant, body: bytes, address: str = "") -> HeartbeatReply:
        try:
            attempt, rank, state, sent_at = wire.decode_heartbeat(body)
        except wire.WireError as error:
            raise _problem(error) from None
        if attempt != grant.attempt:
            await self._note(grant.token_id, "foreign-attempt", grant.job_id, address)
            raise refused("forbidden", _("this ingest token belongs to another attempt"))
        if grant.rank is not None:
            raise refused("forbidden", _("a heartbeat is the runner's; this ingest token is for metrics and samples"))
        now = self._clock.now()
        beat: dict[str, object] = {
            "job_id": grant.job_id,
            "attempt": attempt,
            "rank": rank,
            "state": state,
            "sent_at": sent_at,
            "received_at": now,
        }
        await self._beats.ask(beat)
        desired = await self._signals.heartbeat(grant.job_id, attempt, rank, state, now)
        return HeartbeatReply(desired, await self.tokens.renewed(grant))

    async def _save_beats(self, beats: Sequence[dict[str, object]]) -> Sequence[None]:
        """In one transaction, in the order in which everybody locks the rows."""
        newest = {(str(beat["job_id"]), str(beat["attempt"]), str(beat["rank"])): beat for beat in beats}
        async with self._database.begin() as session:
            await repo.save_heartbeats(session, [newest[key] for key in sorted(newest)])
        return [None] * len(beats)

    async def heard(self, job_id: str, attempt: int) -> list[HeartbeatRow]:
        """The newest heartbeat of each machine of an attempt, by rank."""
        async with self._database.session() as session:
            return await repo.heartbeats(session, job_id, attempt)

    async def heard_of(self, job_ids: Sequence[str]) -> list[repo.Heard]:
        """The newest heartbeat of each machine of each attempt of these runs."""
        async with self._database.session() as session:
            return await repo.heartbeats_of(session, job_ids)

    async def last_heard(self, job_id: str, attempt: int) -> datetime | None:
        """When any machine of the attempt was heard last, on this console's clock."""
        return max((beat.received_at for beat in await self.heard(job_id, attempt)), default=None)

    async def forget(self, job_id: str) -> None:
        """Delete tokens and heartbeats of a run."""
        async with self._database.begin() as session:
            await repo.forget(session, job_id)
        self.tokens.forget(job_id)

    async def _decoded(self, grant: Grant, body: bytes, encoding: str, address: str) -> Batch:
        def decode() -> Batch:
            return wire.decode_batch(bodies.inflate(body, encoding), grant.attempt)

        try:
            async with self.gate.decoding():
                return await asyncio.to_thread(decode) if len(body) > INLINE_BYTES else decode()
        except bodies.BodyError as error:
            raise _body_problem(error) from None
        except wire.WireError as error:
            if error.kind == "foreign":
                await self._note(grant.token_id, "foreign-attempt", grant.job_id, address)
            raise _problem(error) from None

    async def _signal(self, grant: Grant, event: EventRecord) -> None:
        job_id, attempt, rank, name = grant.job_id, grant.attempt, event.rank, event.event
        try:
            if name == "trainer-started":
                await self._signals.trainer_started(job_id, attempt, rank, event.data)
            elif name == "outcome":
                await self._signals.outcome(job_id, attempt, rank, event.data)
            elif name in REPORTED:
                await self._signals.reported(job_id, attempt, rank, name, event.data)
        except Exception as error:
            log.error(
                "a run's event did not reach the ledger", job=job_id, attempt=attempt, event_name=name, exc_info=error
            )

    async def _note(self, token_id: str, why: str, job_id: str, address: str, **data: Any) -> None:
        """Audit a refusal, once in a while per token and kind, and not without bound in all: whoever has one token could name
        a new run each time, and whoever has many could use them in turn."""
        key, now = (token_id, why), time.monotonic()
        if now - self._audited.get(key, -AUDIT_SECONDS) < AUDIT_SECONDS or not self._may_audit(now):
            return
        self._audited[key] = now
        while len(self._audited) > AUDIT_REMEMBERED:
            self._audited.popitem(last=False)
        entry = AuditEntry("system:ingest", "ingest.refuse", job_id, address, {"why": why, "token": token_id, **data})
        await self._audit.record_alone(entry)

    def _may_audit(self, now: float) -> bool:
        while self._noted and now - self._noted[0] >= AUDIT_SECONDS:
            self._noted.popleft()
        if len(self._noted) >= AUDITED_AT_MOST:
            return False
        self._noted.append(now)
        return True


def _is_only_of(batch: Batch, rank: int) -> bool:
    """Whether it holds metrics and samples of this rank and nothing else."""
    return not batch.logs and not batch.events and all(one.rank == rank for one in [*batch.metrics, *batch.samples])


def _body_problem(error: bodies.BodyError) -> ProblemError:
    if error.kind == "large":
        return ProblemError(413, "too-large", str(error), _("send smaller batches"))
    if error.kind == "encoding":
        return ProblemError(415, "media-type", str(error))
    return refused("request-invalid", str(error), status=400)


def _problem(error: wire.WireError) -> ProblemError:
    from tuneplane.contract.refusals import Refusal

    text = _("line {line}: {problem}").format(line=error.line, problem=error)
    if error.kind == "large":
        return ProblemError(413, "too-large", text, _("send smaller batches"))
    code, status = ("forbidden", 403) if error.kind == "foreign" else ("request-invalid", 400)
    return ProblemError(status, code, text, refusals=(Refusal(code, text, line=error.line),))
