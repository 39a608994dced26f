"""The observer: looks at what was launched and tells the ledger what it saw. It starts nothing and ends nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane.contract.capsule import CapsuleIngest
from tuneplane_server.background.leases import Lease
from tuneplane_server.background.loop import Work
from tuneplane_server.background.writing import RoleWriter, has_condition
from tuneplane_server.domain.classify import Exit, classify
from tuneplane_server.domain.members import MemberEnd, follows, verdict_of
from tuneplane_server.domain.phases import Phase, Reason, StopCause, Verdict
from tuneplane_server.domain.transitions import UNREACHABLE, Event
from tuneplane_server.executors.port import Executor, Handle, Observation
from tuneplane_server.features.jobs import repo
from tuneplane_server.features.jobs.ledger import Also
from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.storage.layout import StorageRoot
from tuneplane_server.storage.outcomes import OutcomeReader

DRAIN_MARGIN_SECONDS = 40.0  # beyond the runner's own drain (capsule.ingest.drain_seconds) and its hashing
# How long a first machine that only met another one's end waits for that one's word.
OTHERS_SECONDS = 30.0
DRAIN_SECONDS: float = CapsuleIngest.model_fields["drain_seconds"].default
_NO_EXIT = Exit()  # it has not ended yet: only the runner's word counts


class Observer:
    name = "observer"
    topics = ("observer",)

    def __init__(
        self,
        writer: RoleWriter,
        executor: Executor,
        storage: StorageRoot,
        *,
        interval: float,
        start_timeout: float,
    ) -> None:
        self._writer, self._executor, self._storage = writer, executor, storage
        self.interval, self._start_timeout = interval, start_timeout
        self._outcomes = OutcomeReader()

    async def due(self) -> Sequence[Work]:
        return [Work(row.id, row) for row in await self._writer.jobs_to_watch()]

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        await self._writer.show_failure(work.item, lease, error)

    async def handle(self, work: Work, lease: Lease) -> None:
        row: JobRow = work.item
        observation = await self._executor.observe(_handle(row))
        # After looking: a run that is seen to have ended wrote its outcome before it did.
        outcome = await self._outcome(row)
        if outcome is not None or observation.exit is not None:
            # The row too: what told it to stop was in the ledger before it stopped, and perhaps not yet when we began.
            now = await self._writer.job(row.id)
            if now is None or now.attempt != row.attempt:
                return
            row = now
        await self._writer.show_works_again(row, lease)
        if observation.presence == "unknown":
            await self._not_seen(row, lease, observation, outcome)
        elif observation.presence == "present" and observation.running:
            await self._alive(row, lease, observation, outcome)
        else:
            verdict = await self._verdict(row, observation, outcome)
            if follows(verdict) and 0 < len(observation.members) < len(_handle(row).nodes):
                # What the one met whose end it was cannot be asked. When its node is given up, that is known, too.
                await self._not_seen(row, lease, observation, outcome)
            else:
                await self._ended(row, lease, verdict, observation.detail, outcome)

    async def _not_seen(
        self, row: JobRow, lease: Lease, observation: Observation, outcome: dict[str, Any] | None
    ) -> None:
        if not has_condition(row, UNREACHABLE):
            await self._writer.apply(row, lease, Event.UNREACHABLE, data={"detail": observation.detail[:1000]})
        if outcome is not None:  # the runner's word is evidence whether or not anybody can be asked
            await self._draining(row, lease, observation, outcome)

    async def _alive(self, row: JobRow, lease: Lease, observation: Observation, outcome: dict[str, Any] | None) -> None:
        if observation.started and (row.phase == Phase.STARTING or has_condition(row, UNREACHABLE)):
            await self._writer.apply(row, lease, Event.RUNNING)
        if outcome is not None:
            await self._draining(row, lease, observation, outcome)
        elif row.phase == Phase.STARTING and not observation.started:
            await self._start_deadline(row, lease)
        else:
            await self._time_limit(row, lease)

    async def _draining(self, row: JobRow, lease: Lease, observation: Observation, outcome: dict[str, Any]) -> None:
        """The trainer has ended, the runner still sends. It has a deadline, so that nothing hangs for ever."""
        if row.phase != Phase.FINISHING:
            verdict = await self._verdict(row, observation, outcome)
            silent = observation.presence == "unknown" or not observation.running
            if len(_handle(row).nodes) > 1 and follows(verdict) and (silent or self._is_fresh(outcome)):
                return  # the machine whose end it met has not told its own yet
            await self._writer.apply(row, lease, Event.OUTCOME, verdict=verdict, also=_keep(outcome))
        elif self._age(row.phase_since) > DRAIN_SECONDS + DRAIN_MARGIN_SECONDS:
            await self._writer.apply(row, lease, Event.OVERDUE)

    async def _start_deadline(self, row: JobRow, lease: Lease) -> None:
        if self._age(row.phase_since) > self._start_timeout:
            reason = Reason("start-timeout", {"seconds": int(self._start_timeout)})
            await self._ended(row, lease, Verdict(Phase.FAILED, reason, from_outcome=False), "", None)

    async def _time_limit(self, row: JobRow, lease: Lease) -> None:
        limit = row.max_seconds
        if limit is None or row.stop_cause is not None:
            return
        if row.phase == Phase.RUNNING and self._age(row.phase_since) <= limit:
            return  # it runs since it started: nothing to look up as long as that is not long ago
        started = (await self._writer.attempt(row)).started_at
        if started is not None and self._age(started) > limit:
            await self._writer.apply(row, lease, Event.TIME_LIMIT, data={"seconds": limit})

    async def _ended(
        self, row: JobRow, lease: Lease, verdict: Verdict, detail: str, outcome: dict[str, Any] | None
    ) -> None:
        data = {"detail": detail[:1000]} if detail else {}
        await self._writer.apply(row, lease, Event.ENDED, verdict=verdict, data=data, also=_keep(outcome))

    async def _verdict(self, row: JobRow, observation: Observation, outcome: dict[str, Any] | None) -> Verdict:
        nodes, cause = _handle(row).nodes, _stop_cause(row)
        if len(nodes) < 2:
            verdict = classify(observation.exit or _NO_EXIT, outcome, cause, observation.output)
            return _with_limit(verdict, row)
        known = {0: outcome} | {rank: await self._outcome(row, rank) for rank in range(1, len(nodes))}
        outcomes = {rank: record for rank, record in known.items() if record is not None}
        ended = {member.rank: member for member in observation.members}
        speaking = {rank: MemberEnd(rank, nodes[rank], _NO_EXIT) for rank in outcomes}
        return _with_limit(verdict_of(list((speaking | ended).values()), outcomes, cause), row)

    async def _outcome(self, row: JobRow, rank: int = 0) -> dict[str, Any] | None:
        paths = self._storage.attempt(row.owner, row.project, row.id, row.attempt)
        return await self._outcomes.read(paths.out, row.id, row.attempt, rank)

    def _is_fresh(self, outcome: dict[str, Any]) -> bool:
        return abs(self._writer.now().timestamp() - outcome["finished_at"]) < OTHERS_SECONDS

    def _age(self, since: datetime) -> float:
        return (self._writer.now() - since).total_seconds()


def _with_limit(verdict: Verdict, row: JobRow) -> Verdict:
    """The reason `time-limit` says which limit it was."""
    if verdict.reason is None or verdict.reason.code != StopCause.TIME_LIMIT:
        return verdict
    return replace(verdict, reason=Reason(verdict.reason.code, {"seconds": row.max_seconds}))


def _keep(outcome: dict[str, Any] | None) -> Also | None:
    """Keep the runner's word with the attempt, without the log, which is kept as such."""
    if outcome is None:
        return None
    kept = {name: value for name, value in outcome.items() if name != "log_tail"}

    async def write(session: AsyncSession, job: JobRow) -> None:
        await repo.write_attempt(session, job.id, outcome["attempt"], {"outcome": kept})

    return write


def _handle(row: JobRow) -> Handle:
    assert row.handle is not None
    return Handle.from_json(row.handle)


def _stop_cause(row: JobRow) -> StopCause | None:
    return StopCause(row.stop_cause) if row.stop_cause else None
