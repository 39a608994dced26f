"""The alerter: looks at all live runs and at those that ended lately, and writes what the projects' rules say of them.

Its rules are `domain.alerts`. A round is a handful of reads whatever the number of runs; only what changes is claimed and written,
guarded by the lease and by the state's own version, so that it fires once however many look.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.background.leases import Lease, still_held
from tuneplane_server.background.loop import Work
from tuneplane_server.background.writing import RoleWriter
from tuneplane_server.db.engine import Database
from tuneplane_server.domain import alerts
from tuneplane_server.domain.alerts import (
    CONDITION_PREFIX,
    ENDINGS,
    Effect,
    Facts,
    Kind,
    MetricFact,
    Rule,
)
from tuneplane_server.domain.phases import LIVE, Phase
from tuneplane_server.domain.transitions import Event
from tuneplane_server.features.alerts import repo as alert_repo
from tuneplane_server.features.alerts.firing import AlertWriter, Move, SeenBeforeError, Subject, state_of
from tuneplane_server.features.alerts.service import AlertService
from tuneplane_server.features.alerts.tables import AlertStateRow
from tuneplane_server.features.hardware.figures import HardwareFigures
from tuneplane_server.features.jobs import repo as job_repo
from tuneplane_server.features.jobs.ended import EndedJob, ended_since
from tuneplane_server.features.jobs.known import KnownJobs
from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.features.telemetry.service import TelemetryService
from tuneplane_server.wakeups import Wakeups

log = structlog.get_logger(__name__)

# Ends are looked for over a stretch before the last look, since a slow transaction shows late; after a start, over a day.
OVERLAP, FIRST_LOOK = timedelta(minutes=10), timedelta(days=1)
ENDS_AT_ONCE = 5000
PRUNE_EVERY = timedelta(hours=1)

type Rules = Mapping[str, Rule]
type States = Mapping[tuple[str, str], AlertStateRow]


@dataclass(frozen=True)
class Moves:
    """What is to be written about one run. `row` None: it is not live, so it has no conditions."""

    subject: Subject
    row: JobRow | None
    moves: Sequence[Move]
    ended_at: datetime | None = None


class Alerter:
    name = "alerter"
    topics = ()
    interval = 10.0

    def __init__(
        self,
        writer: RoleWriter,
        database: Database,
        alerts_: AlertService,
        alert_writer: AlertWriter,
        telemetry: TelemetryService,
        figures: HardwareFigures,
        wakeups: Wakeups,
    ) -> None:
        self._writer, self._database, self._alerts, self._alert_writer = writer, database, alerts_, alert_writer
        self._telemetry, self._figures, self._wakeups = telemetry, figures, wakeups
        self._live = KnownJobs(database, job_repo.live_versions)
        self._looked: datetime | None = None
        self._pruned: datetime | None = None

    async def due(self) -> Sequence[Work]:
        now = self._writer.now()
        since = now - FIRST_LOOK if self._looked is None else self._looked - OVERLAP
        (defaults, own), known, (states, ended, told) = await asyncio.gather(
            self._alerts.rules(), self._live.look(), self._noted(since)
        )
        live = [row for row in known if row.phase == Phase.RUNNING]
        found = await self._of_live(live, defaults, own, states, now)
        found += self._of_gone({row.id for row in live}, states)
        found += _of_ended(ended, defaults, own, told)
        self._looked = now
        if self._pruned is None or now - self._pruned >= PRUNE_EVERY:
            await self._alerts.prune()
            self._pruned = now
        return [Work(item.subject.job_id, item) for item in _one_each(found)]

    async def handle(self, work: Work, lease: Lease) -> None:
        item: Moves = work.item
        sent = False
        for move in item.moves:
            try:
                sent = await self._write(item, move, lease) or sent
            except SeenBeforeError:
                continue  # another console has told it
        if sent:
            self._wakeups.notify("deliverer", "notifications")

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        """The loop has logged it and lets the row rest; a job is not to blame for its alert."""

    # --- looking --------------------------------------------------------------------------------------------------

    async def _noted(self, since: datetime) -> tuple[States, Sequence[EndedJob], set[tuple[str, str]]]:
        """What is pending or firing, the runs that have ended since, and what was told of those."""
        async with self._database.session() as session:
            states = {(row.job_id, row.rule): row for row in await alert_repo.open_states(session)}
            ended = await ended_since(session, since, ENDS_AT_ONCE)
            told = {(row.job_id, row.rule) for row in await alert_repo.states(session, [job.id for job in ended])}
        return states, ended, told

    async def _of_live(
        self,
        live: Sequence[JobRow],
        defaults: Rules,
        own: Mapping[str, Rules],
        states: States,
        now: datetime,
    ) -> list[Moves]:
        rules = {row.project_id: own.get(row.project_id, defaults) for row in live}
        facts = await self._facts(live, rules, states, now)
        open_of: defaultdict[str, list[AlertStateRow]] = defaultdict(list)
        for (job_id, _rule), state in states.items():
            open_of[job_id].append(state)
        found = []
        for row in live:
            moves = [
                move
                for rule in rules[row.project_id].values()
                if rule.kind not in ENDINGS
                and (move := _judged(rule, states.get((row.id, rule.name)), facts[row.id], now)) is not None
            ]
            moves += [_over(state) for state in open_of[row.id] if state.rule not in rules[row.project_id]]
            if moves:
                found.append(Moves(_subject(row), row, moves))
        return found

    async def _facts(
        self, live: Sequence[JobRow], rules: Mapping[str, Rules], states: States, now: datetime
    ) -> dict[str, Facts]:
        """What the enabled rules need, of all runs at once."""
        ids = [row.id for row in live]
        enabled = [rule for mine in rules.values() for rule in mine.values() if rule.enabled]
        names = sorted({rule.metric for rule in enabled if rule.metric})
        if not ids:
            return {}
        life = self._telemetry.life
        idling, silent = (alerts.least_minutes(enabled, kind) for kind in (Kind.GPU_IDLE, Kind.NO_PROGRESS))
        told = {job_id for job_id, _rule in states}
        # A run that began later than its rule looks back is not idle by it; of others it may be over what was told.
        old = [row.id for row in live if row.id in told or _as_old(row.phase_since, idling, now)]
        newest, last, idle = await asyncio.gather(
            life.newest(ids, names), life.last(ids), self._figures.idle_cards(old)
        )
        # A phase that reported itself excuses only what would else be so.
        quiet = {job_id for job_id, when in last.items() if _as_old(when.metric, silent, now)}
        quiet |= {job_id for (job_id, _attempt), cards in idle.items() if _as_old(cards.idle_since, idling, now)}
        busy = await life.busy_until(sorted(quiet))
        facts = {}
        for row in live:
            key = (row.id, row.attempt)
            held = sum(int(pool["nodes"]) * int(pool["gpus_per_node"]) for pool in row.demand)
            cards = idle.get(key)
            facts[row.id] = Facts(
                running_since=row.phase_since,
                conditions={item["type"]: item["data"] for item in row.conditions},
                metrics={
                    name: MetricFact(item.step, item.value, item.count, item.low, item.high)
                    for name, item in newest.get(key, {}).items()
                },
                last_metric_at=last[row.id].metric if row.id in last else None,
                busy_until=busy.get(row.id),
                idle_since=None if cards is None else cards.idle_since,
                cards_known=cards is not None and 0 < held <= cards.measured,
            )
        return facts

    def _of_gone(self, live: set[str], states: States) -> list[Moves]:
        """What was pending or firing of runs that do not run any more is over."""
        gone: defaultdict[str, list[AlertStateRow]] = defaultdict(list)
        for (job_id, _rule), state in states.items():
            if job_id not in live:
                gone[job_id].append(state)
        return [Moves(_subject_of_gone(mine[0]), None, [_over(state) for state in mine]) for mine in gone.values()]

    # --- writing --------------------------------------------------------------------------------------------------

    async def _write(self, item: Moves, move: Move, lease: Lease) -> bool:
        """Whether somebody is told. The condition on the job, the state and all that follows are one transaction."""
        subject = (
            item.subject if item.row is not None or item.ended_at is not None else await self._completed(item.subject)
        )
        if subject is None:
            return False

        async def write(session: AsyncSession, locked: JobRow | None = None) -> None:
            if locked is not None and locked.phase != Phase.RUNNING:
                raise SeenBeforeError  # it has ended since the look: no condition may stay on what is over
            if item.ended_at is not None:
                await self._alert_writer.write_ending(session, subject, move, item.ended_at)
            else:
                await self._alert_writer.write(session, subject, move)

        shown = item.row is not None and alerts.shown_already(move.kind, [one["type"] for one in item.row.conditions])
        if item.row is not None and move.effect is not None and not shown:
            event = Event.CONDITION if move.effect is Effect.FIRED else Event.CONDITION_CLEARED
            data = {"kind": str(move.kind), "rule": move.rule, **move.data}
            condition = CONDITION_PREFIX + move.rule
            if await self._writer.apply(item.row, lease, event, condition=condition, data=data, also=write):
                return True
            current = await self._writer.job(item.row.id)
            if current is None or current.attempt != item.row.attempt or current.phase not in LIVE:
                return False  # it is another run by now; the next look judges that one
        async with self._database.begin() as session:
            if not await still_held(session, lease):
                return False
            await write(session)
        return move.effect is not None

    async def _completed(self, subject: Subject) -> Subject | None:
        row = await self._writer.job(subject.job_id)
        return None if row is None else _subject(row)


def _judged(rule: Rule, seen: AlertStateRow | None, facts: Facts, now: datetime) -> Move | None:
    """None when nothing changes."""
    if seen is None and not rule.enabled:
        return None
    before = state_of(seen)
    after, effect = alerts.step(rule, before, facts, now)
    if after == before and effect is None:
        return None
    data = after.data if effect is Effect.FIRED else before.data
    return Move(rule.name, rule.kind, seen, after, effect, data)


def _as_old(time: datetime | None, minutes: float | None, now: datetime) -> bool:
    return time is not None and minutes is not None and now - time >= timedelta(minutes=minutes)


def _over(seen: AlertStateRow) -> Move:
    after, effect = alerts.over(state_of(seen))
    return Move(seen.rule, alerts.Kind(seen.kind), seen, after, effect, seen.data)


def _of_ended(
    ended: Sequence[EndedJob], defaults: Rules, own: Mapping[str, Rules], told: set[tuple[str, str]]
) -> list[Moves]:
    found = []
    for job in ended:
        rules = own.get(job.project_id, defaults).values()
        moves = [
            Move(rule.name, rule.kind, None, alerts.NOTHING, Effect.FIRED, {"reason": job.reason})
            for rule in rules
            if alerts.ending(rule, Phase(job.phase), job.finished_at) and (job.id, rule.name) not in told
        ]
        if moves:
            found.append(Moves(_subject(job), None, moves, job.finished_at))
    return found


def _one_each(found: Sequence[Moves]) -> list[Moves]:
    """One piece of work for a run: what is over of it first, its end at the next look."""
    first: dict[str, Moves] = {}
    for item in found:
        first.setdefault(item.subject.job_id, item)
    return list(first.values())


def _subject(job: JobRow | EndedJob) -> Subject:
    return Subject(
        job.id, job.owner_id, job.owner, job.project_id, job.project, job.experiment, job.display_name, job.phase
    )


def _subject_of_gone(state: AlertStateRow) -> Subject:
    """Completed from its row before anything is written."""
    return Subject(state.job_id, "", "", state.project_id, "", "", None, "")
