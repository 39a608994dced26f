"""The observer: looks at what was launched and tells the ledger what it saw. It starts nothing and ends nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane.contract.capsule import CapsuleIngest
from tuneplane_server.background.batches import Turns, begin_after
from tuneplane_server.background.leases import Lease
from tuneplane_server.background.loop import Work
from tuneplane_server.background.writing import RoleWriter, condition_of, has_condition
from tuneplane_server.domain.classify import Exit, classify, names_cause
from tuneplane_server.domain.executor_queue import is_news, queue_name, seen_in_queue
from tuneplane_server.domain.members import MemberEnd, follows, verdict_of
from tuneplane_server.domain.own_queue import is_counted
from tuneplane_server.domain.phases import Phase, Reason, StopCause, Verdict
from tuneplane_server.domain.transitions import EXECUTOR_QUEUE, EXECUTOR_STARTING, UNREACHABLE, Event
from tuneplane_server.executors.port import Executor, Handle, Observation, Queued
from tuneplane_server.features.hardware.service import HardwareService
from tuneplane_server.features.jobs import repo
from tuneplane_server.features.jobs.ledger import Also
from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.storage.layout import StorageRoot
from tuneplane_server.storage.outcomes import OutcomeReader

DRAIN_MARGIN_SECONDS = 40.0  # beyond the runner's own drain (capsule.ingest.drain_seconds) and its hashing
# How long a first machine that only met another one's end waits for that one's word.
OTHERS_SECONDS = 30.0
# Of the runs that nothing is known of but that they run. A look at each is a call to its node: five hundred of them every other second
# were a third of what a console does. The runner tells their end itself; a look only finds those that could not.
QUIET_AT_A_LOOK = 100
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
        hardware: HardwareService,
        *,
        interval: float,
        start_timeout: float,
    ) -> None:
        self._writer, self._executor, self._storage, self._hardware = writer, executor, storage, hardware
        self.interval, self._start_timeout = interval, start_timeout
        self._outcomes = OutcomeReader()
        self._turns = Turns(QUIET_AT_A_LOOK)

    async def due(self) -> Sequence[Work]:
        """All of them; of those that just run, when there are hundreds, some at each look in turn."""
        rows = await self._writer.jobs_to_watch()
        quiet = [row.id for row in rows if _is_quiet(row)]
        later = self._turns.later(quiet)
        sooner = [job_id for job_id in quiet if job_id not in later] if later else []
        after = {job_id: begin_after(place, len(sooner), self.interval) for place, job_id in enumerate(sooner)}
        return [Work(row.id, row, now=row.id not in later, after=after.get(row.id, 0.0)) for row in rows]

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
            some = 0 < len(observation.members) < len(_handle(row).nodes)
            if some and follows(verdict) and not self._hardware.own_queue:
                # What the one met whose end it was cannot be asked. When its node is given up, that is known, too.
                await self._not_seen(row, lease, observation, outcome)
            else:
                await self._ended(row, lease, verdict, observation, outcome)

    async def _not_seen(
        self, row: JobRow, lease: Lease, observation: Observation, outcome: dict[str, Any] | None
    ) -> None:
        if not has_condition(row, UNREACHABLE):
            await self._writer.apply(row, lease, Event.UNREACHABLE, data={"detail": observation.detail[:1000]})
        if outcome is not None:  # the runner's word is evidence whether or not anybody can be asked
            await self._draining(row, lease, observation, outcome)

    async def _alive(self, row: JobRow, lease: Lease, observation: Observation, outcome: dict[str, Any] | None) -> None:
        if observation.started:
            await self._running(row, lease, observation)
        if outcome is not None:
            await self._draining(row, lease, observation, outcome)
        elif row.phase == Phase.STARTING and not observation.started:
            await self._before_the_start(row, lease, observation)
        else:
            await self._time_limit(row, lease)

    async def _running(self, row: JobRow, lease: Lease, observation: Observation) -> None:
        handle = _on_real_nodes(_handle(row), observation)
        if row.phase != Phase.STARTING and handle is None and not has_condition(row, UNREACHABLE):
            return
        data = {} if handle is None else {"nodes": ", ".join(dict.fromkeys(handle.nodes))}
        stored = None if handle is None else handle.to_json()
        also = self._begin_use(row, observation)
        await self._writer.apply(row, lease, Event.RUNNING, handle=stored, data=data, also=also)

    def _begin_use(self, row: JobRow, observation: Observation, also: Also | None = None) -> Also | None:
        """`also`, and before it: what waited in the executor's own queue uses its cards from its start."""
        if not self._hardware.own_queue or row.phase != Phase.STARTING:
            return also

        async def begin(session: AsyncSession, job: JobRow) -> None:
            await self._hardware.begin_use(session, job.id, row.attempt, observation.started_at, row.max_seconds)
            if also is not None:
                await also(session, job)

        return begin

    async def _before_the_start(self, row: JobRow, lease: Lease, observation: Observation) -> None:
        """The executor's own queue may hold it for as long as it likes; what it has let go has to begin. That may be the first
        thing seen of it, long after it was placed: its time begins then."""
        await self._writer.clear_condition(row, lease, UNREACHABLE)
        if observation.queued is not None:
            await self._writer.clear_condition(row, lease, EXECUTOR_STARTING)
            await self._in_queue(row, lease, observation.queued)
        elif has_condition(row, EXECUTOR_QUEUE):
            await self._writer.set_condition(row, lease, EXECUTOR_STARTING, {})
            queue = {"queue": queue_name(self._executor.name)}
            await self._writer.apply(row, lease, Event.CONDITION_CLEARED, condition=EXECUTOR_QUEUE, data=queue)
        elif self._hardware.own_queue and not has_condition(row, EXECUTOR_STARTING):
            await self._writer.set_condition(row, lease, EXECUTOR_STARTING, {})
        else:
            await self._start_deadline(row, lease, observation)

    async def _in_queue(self, row: JobRow, lease: Lease, queued: Queued) -> None:
        known = condition_of(row, EXECUTOR_QUEUE)
        seen = seen_in_queue(self._executor.name, **asdict(queued), now=self._writer.now())
        since = self._writer.now() if known is None else datetime.fromisoformat(known["since"])
        if is_news(None if known is None else known["data"], seen, since):
            await self._writer.apply(row, lease, Event.CONDITION, condition=EXECUTOR_QUEUE, data=seen)

    async def _draining(self, row: JobRow, lease: Lease, observation: Observation, outcome: dict[str, Any]) -> None:
        """The trainer has ended, the runner still sends. It has a deadline, so that nothing hangs for ever."""
        if row.phase != Phase.FINISHING:
            verdict = await self._verdict(row, observation, outcome)
            silent = observation.presence == "unknown" or not observation.running
            if self._more_is_to_come(row, verdict) and (silent or self._is_fresh(outcome)):
                return
            also = self._begin_use(row, observation, _keep(outcome))
            await self._writer.apply(row, lease, Event.OUTCOME, verdict=verdict, also=also)
        elif self._age(row.phase_since) > DRAIN_SECONDS + DRAIN_MARGIN_SECONDS:
            await self._writer.apply(row, lease, Event.OVERDUE)

    def _more_is_to_come(self, row: JobRow, verdict: Verdict) -> bool:
        """Whether another one knows better: the machine whose end this one met, or the queue that told the run to end."""
        if len(_handle(row).nodes) > 1:
            return follows(verdict)
        interrupted = verdict.reason is not None and verdict.reason.code == "interrupted"
        return interrupted and bool(self._hardware.own_queue)

    async def _start_deadline(self, row: JobRow, lease: Lease, observation: Observation) -> None:
        let_go = condition_of(row, EXECUTOR_STARTING)
        since = row.phase_since if let_go is None else datetime.fromisoformat(let_go["since"])
        if self._age(since) > self._start_timeout:
            reason = Reason("start-timeout", {"seconds": int(self._start_timeout)})
            verdict = Verdict(Phase.FAILED, reason, from_outcome=False)
            await self._ended(row, lease, verdict, replace(observation, detail=""), None)

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
        self,
        row: JobRow,
        lease: Lease,
        verdict: Verdict,
        observation: Observation,
        outcome: dict[str, Any] | None,
    ) -> None:
        data = {"detail": observation.detail[:1000]} if observation.detail else {}
        also = _keep(outcome)
        if observation.started_at is not None or outcome is not None:  # it began and ended between two looks
            also = self._begin_use(row, observation, also)
        await self._writer.apply(row, lease, Event.ENDED, verdict=verdict, data=data, also=also)

    async def _verdict(self, row: JobRow, observation: Observation, outcome: dict[str, Any] | None) -> Verdict:
        nodes, cause, end = _handle(row).nodes, _stop_cause(row), observation.exit or _NO_EXIT
        # What the executor's own queue ended as a whole says more than what each of its machines met.
        if len(nodes) < 2 or (self._hardware.own_queue and names_cause(end)):
            return _with_limit(classify(end, outcome, cause, observation.output), row)
        known = {0: outcome} | {rank: await self._outcome(row, rank) for rank in range(1, len(nodes))}
        outcomes = {rank: record for rank, record in known.items() if record is not None}
        ended = {member.rank: member for member in observation.members}
        speaking = {rank: MemberEnd(rank, nodes[rank], _NO_EXIT) for rank in outcomes}
        if not speaking and not ended:  # it ended before any of its machines began
            return _with_limit(classify(end, None, cause, observation.output), row)
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


def _is_quiet(row: JobRow) -> bool:
    return row.phase == Phase.RUNNING and row.stop_cause is None and not has_condition(row, UNREACHABLE)


def _handle(row: JobRow) -> Handle:
    assert row.handle is not None
    return Handle.from_json(row.handle)


def _on_real_nodes(handle: Handle, observation: Observation) -> Handle | None:
    """The handle with the machines that the executor chose; None when they are not known, or were before."""
    if len(observation.nodes) != len(handle.nodes) or not any(map(is_counted, handle.nodes)):
        return None
    return replace(handle, nodes=observation.nodes)


def _stop_cause(row: JobRow) -> StopCause | None:
    return StopCause(row.stop_cause) if row.stop_cause else None
