"""The watchdog: looks at all live runs at once and sets or clears conditions; it stops a run only where the policy says so.

Its rules are `domain.watch`. A round is a handful of reads whatever the number of runs; only a run whose conditions are to change
is claimed and written.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from tuneplane_server.background.leases import Lease
from tuneplane_server.background.loop import Work
from tuneplane_server.background.writing import RoleWriter
from tuneplane_server.db.engine import Database
from tuneplane_server.domain import watch
from tuneplane_server.domain.findings import DISK_LOW
from tuneplane_server.domain.phases import Phase, StopCause
from tuneplane_server.domain.transitions import Event
from tuneplane_server.domain.watch import BadLoss, Beat, CardLoad, Sighting, Step, WatchPolicy
from tuneplane_server.features.hardware.figures import HardwareFigures, IdleCards
from tuneplane_server.features.ingest.repo import Heard
from tuneplane_server.features.ingest.service import IngestService
from tuneplane_server.features.jobs import repo
from tuneplane_server.features.jobs.known import KnownJobs
from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.features.telemetry.repo.life import Last, Loss
from tuneplane_server.features.telemetry.service import TelemetryService
from tuneplane_server.findings import Findings
from tuneplane_server.storage.space import Space

log = structlog.get_logger(__name__)

GB = 10**9
OFFSETS_KEPT = 5

type Attempt = tuple[str, int]  # run, attempt


@dataclass(frozen=True)
class Verdict:
    """What is to be done about one run."""

    row: JobRow
    steps: Sequence[Step]
    stop: StopCause | None


@dataclass(frozen=True)
class _Known:
    """What was read of all runs at once. `busy` and `idle`: only of those that have been quiet for long."""

    last: Mapping[str, Last]
    beats: Mapping[Attempt, Sequence[Heard]]
    worst: Mapping[Attempt, BadLoss]
    busy: Mapping[str, datetime]
    idle: Mapping[Attempt, IdleCards]


@dataclass
class _Memory:
    """What one row of a table cannot tell: earlier heartbeats, and since how many reports a loss is no number. Of this process;
    after a start it fills again, and until then conditions stay as they are.
    """

    offsets: dict[Attempt, dict[int, deque[tuple[datetime, float]]]] = field(default_factory=dict)
    first_bad: dict[tuple[Attempt, int, str], int] = field(default_factory=dict)

    def note_beat(self, beat: Heard) -> None:
        """A heartbeat counts once, however often it is looked at."""
        kept = self.offsets.setdefault((beat.job_id, beat.attempt), {}).setdefault(
            beat.rank, deque(maxlen=OFFSETS_KEPT)
        )
        if not kept or kept[-1][0] != beat.received_at:
            kept.append((beat.received_at, beat.sent_at - beat.received_at.timestamp()))

    def offsets_of(self, attempt: Attempt) -> dict[int, list[float]]:
        return {rank: [offset for _at, offset in kept] for rank, kept in self.offsets.get(attempt, {}).items()}

    def bad_reports(self, loss: Loss) -> int:
        """How many reports in a row were seen to be no number, this one included."""
        first = self.first_bad.setdefault(((loss.job_id, loss.attempt), loss.rank, loss.name), loss.count)
        return loss.count - first + 1

    def forget_others(self, live: set[Attempt], bad: Sequence[Loss]) -> None:
        self.offsets = {key: kept for key, kept in self.offsets.items() if key in live}
        still = {((loss.job_id, loss.attempt), loss.rank, loss.name) for loss in bad}
        self.first_bad = {key: count for key, count in self.first_bad.items() if key in still}


class Watchdog:
    name = "watchdog"
    topics = ()
    interval = 10.0

    def __init__(
        self,
        writer: RoleWriter,
        database: Database,
        telemetry: TelemetryService,
        ingest: IngestService,
        figures: HardwareFigures,
        policy: Callable[[], Awaitable[WatchPolicy]],
        findings: Findings,
        storage_root: Path,
        space: Callable[[Path], Awaitable[Space | None]],
    ) -> None:
        self._writer, self._telemetry, self._ingest, self._figures = writer, telemetry, ingest, figures
        self._live = KnownJobs(database, repo.live_versions)
        self._policy, self._findings, self._root, self._space = policy, findings, storage_root, space
        self._memory = _Memory()
        self._listening_since: datetime | None = None

    async def due(self) -> Sequence[Work]:
        """The runs about which there is something to do."""
        now = self._writer.now()
        self._listening_since = self._listening_since or now
        policy, space, live = await asyncio.gather(self._policy(), self._space(self._root), self._live.look())
        free_gb = self._judge_disk(space, policy)
        # What is being stopped keeps the conditions it has: they may be why.
        rows = [row for row in live if row.stop_cause is None or row.phase != Phase.RUNNING]
        verdicts = [
            self._verdict(row, seen, policy, now) for row, seen in await self._sightings(rows, free_gb, policy, now)
        ]
        return [Work(verdict.row.id, verdict) for verdict in verdicts if verdict.steps or verdict.stop is not None]

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        """The loop's log says it. The run itself is moved on by others: it need not show this."""

    async def handle(self, work: Work, lease: Lease) -> None:
        verdict: Verdict = work.item
        row = verdict.row
        for step in verdict.steps:
            if step.data is None:
                await self._writer.apply(row, lease, Event.CONDITION_CLEARED, condition=step.condition)
            else:
                await self._writer.apply(row, lease, Event.CONDITION, condition=step.condition, data=dict(step.data))
        if verdict.stop is not None:
            log.warning("stopping a run by policy", job=row.id, cause=str(verdict.stop))
            data = {"cause": str(verdict.stop)}
            await self._writer.apply(row, lease, Event.POLICY_STOP, stop_cause=verdict.stop, data=data)

    # --- looking --------------------------------------------------------------------------------------------------

    async def _sightings(
        self, rows: Sequence[JobRow], free_gb: float | None, policy: WatchPolicy, now: datetime
    ) -> list[tuple[JobRow, Sighting]]:
        ids = [row.id for row in rows]
        life = self._telemetry.life
        last, bad, heard = await asyncio.gather(life.last(ids), life.bad_losses(ids), self._ingest.heard_of(ids))
        beats: dict[Attempt, list[Heard]] = {}
        for beat in heard:
            beats.setdefault((beat.job_id, beat.attempt), []).append(beat)
            self._memory.note_beat(beat)
        self._memory.forget_others({(row.id, row.attempt) for row in rows}, bad)
        worst = self._worst(bad)
        assert self._listening_since is not None
        since = self._listening_since
        quiet = [row.id for row in rows if _quiet(row, last.get(row.id), since, policy, now)]
        busy, idle = await asyncio.gather(life.busy_until(quiet), self._figures.idle_cards(quiet))
        known = _Known(last, beats, worst, busy, idle)
        return [(row, self._sighting(row, known, free_gb)) for row in rows]

    def _sighting(self, row: JobRow, known: _Known, free_gb: float | None) -> Sighting:
        attempt = (row.id, row.attempt)
        last = known.last.get(row.id)
        assert self._listening_since is not None
        return Sighting(
            running_since=row.phase_since if row.phase == Phase.RUNNING else None,
            listening_since=self._listening_since,
            machines=sum(int(pool["nodes"]) for pool in row.demand),
            last={} if last is None else {name: getattr(last, name) for name in ("log", "metric", "sample", "event")},
            busy_until=known.busy.get(row.id),
            cards=_load(row, known.idle.get(attempt)),
            beats=[Beat(beat.rank, beat.state, beat.received_at) for beat in known.beats.get(attempt, ())],
            bad_loss=known.worst.get(attempt),
            offsets=self._memory.offsets_of(attempt),
            max_seconds=row.max_seconds,
            free_gb=free_gb,
        )

    def _worst(self, bad: Sequence[Loss]) -> dict[Attempt, BadLoss]:
        """The one of each attempt that is no number for longest."""
        worst: dict[Attempt, BadLoss] = {}
        for loss in sorted(bad, key=lambda loss: (loss.rank, loss.name)):
            value = "NaN" if loss.value is None or math.isnan(loss.value) else f"{loss.value:+}"
            found = BadLoss(loss.name, loss.rank, loss.last_step, value, self._memory.bad_reports(loss))
            before = worst.get((loss.job_id, loss.attempt))
            if before is None or found.reports > before.reports:
                worst[loss.job_id, loss.attempt] = found
        return worst

    # --- judging --------------------------------------------------------------------------------------------------

    def _verdict(self, row: JobRow, seen: Sighting, policy: WatchPolicy, now: datetime) -> Verdict:
        before = {item["type"]: item["data"] for item in row.conditions}
        judgement = watch.judge(seen, before, policy, now)
        return Verdict(row, watch.steps(before, judgement), judgement.stop)

    def _judge_disk(self, space: Space | None, policy: WatchPolicy) -> float | None:
        """Note it for the whole console; returns the free GB, None when the disk cannot be asked."""
        free_gb = None if space is None else space.free / GB
        if not watch.disk_low(free_gb, self._findings.has(DISK_LOW), policy.disk_free_gb):
            self._findings.clear(DISK_LOW)
        elif space is not None and free_gb is not None:
            figures = {"path": str(self._root), "free_gb": f"{free_gb:.1f}", "percent": f"{space.percent:.0f}"}
            if self._findings.put(DISK_LOW, figures):
                log.warning("little disk space is left", **figures)
        return free_gb


def _load(row: JobRow, idle: IdleCards | None) -> CardLoad | None:
    """None unless every card that the attempt holds was measured: one that is not may be at work."""
    held = sum(int(pool["nodes"]) * int(pool["gpus_per_node"]) for pool in row.demand)
    return None if idle is None or not held or idle.measured < held else CardLoad(idle.idle_since)


def _quiet(row: JobRow, last: Last | None, listening_since: datetime, policy: WatchPolicy, now: datetime) -> bool:
    """Whether it is worth asking for what phase the run has reported and what its cards do: without them it would be stalled."""
    if policy.stalled_minutes is None or row.phase != Phase.RUNNING:
        return False
    times = [row.phase_since] if last is None else [row.phase_since, *(time for time in last[1:] if time is not None)]
    if not any(item["type"] == watch.STALLED for item in row.conditions):
        times.append(listening_since)
    return now - max(times) >= timedelta(minutes=policy.stalled_minutes)
