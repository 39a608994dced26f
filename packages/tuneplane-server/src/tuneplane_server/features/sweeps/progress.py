"""How a sweep goes on: ends are noted, trials compared and stopped early, further ones begun, until it is over.

Each step is a small transaction of its own, guarded by the caller's lease and by the state that was read; the next look goes on from
the rows, whatever happened in between. A trial's job and the trial's word of it are written together, under a key of the trial's
own, so that no kill makes two jobs of one trial, and none loses one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.sweeps.space import space_of
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain import sweeps as rules
from tuneplane_server.domain.phases import Desired, Phase
from tuneplane_server.domain.sweeps import SweepState, Trial, TrialState
from tuneplane_server.domain.transitions import Event
from tuneplane_server.features.accounts.principal import SCOPES, Principal
from tuneplane_server.features.accounts.service import AccountService
from tuneplane_server.features.jobs.ledger import Ledger
from tuneplane_server.features.jobs.seen import SeenJob, seen
from tuneplane_server.features.jobs.submission import Request, Submissions
from tuneplane_server.features.sweeps import repo
from tuneplane_server.features.sweeps.comparing import Comparer
from tuneplane_server.features.sweeps.optimizer import KnownTrial, suggest
from tuneplane_server.features.sweeps.tables import SweepRow, TrialRow
from tuneplane_server.features.sweeps.trial_spec import planned_variant, trial_spec
from tuneplane_server.features.sweeps.values import Values
from tuneplane_server.wakeups import Wakeups
from tuneplane_server.web.problems import ProblemError

if TYPE_CHECKING:
    from tuneplane_server.features.jobs.tables import JobRow

log = structlog.get_logger(__name__)

# Why a sweep begins no trials: `SweepRow.why`.
WAITS, REFUSED, FAILING, OWNER_DISABLED = "trial-waits", "trial-refused", "trials-failing", "owner-disabled"
# A full queue empties itself; everything else that admission says of a trial stays true.
_PASSING = frozenset({"quota-exceeded"})

type Held = Callable[[AsyncSession], Awaitable[bool]]


class _NotOursError(Exception):
    """The lease is gone, or the sweep begins no more trials: the job is taken back before it is there."""


@dataclass(frozen=True)
class Look:
    """A sweep as it was read at once. `jobs`: of the trials that are not over."""

    row: SweepRow
    trials: Sequence[TrialRow]
    jobs: Mapping[str, SeenJob]

    @property
    def known(self) -> list[Trial]:
        return [Trial(item.number, TrialState(item.state), item.value, item.ended_at) for item in self.trials]

    @property
    def live(self) -> list[tuple[TrialRow, SeenJob]]:
        return [
            (trial, job)
            for trial in self.trials
            if trial.state == TrialState.SUBMITTED and (job := self.jobs.get(trial.job_id or "")) is not None
        ]


class SweepProgress:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        submissions: Submissions,
        ledger: Ledger,
        values: Values,
        accounts: AccountService,
        wakeups: Wakeups,
        ingest_address: Callable[[], str],
    ) -> None:
        self._database, self._clock, self._submissions = database, clock, submissions
        self._ledger, self._values, self._accounts, self._wakeups = ledger, values, accounts, wakeups
        self._comparer = Comparer(database, ledger, values)
        self._ingest_address = ingest_address

    async def active(self) -> list[str]:
        """Sweeps that have something left to do."""
        async with self._database.session() as session:
            return await repo.active(session)

    async def advance(self, sweep_id: str, held: Held) -> None:
        """One look at the sweep, and all that follows from it."""
        look = await self._look(sweep_id)
        if look is None or look.row.state not in rules.ACTIVE:
            return
        if look.row.sweep.get("early_stopping") and look.row.state != SweepState.CANCELLING:
            await self._comparer.compare(look.row, look.trials, look.jobs, held)
        await self._note_ends(look, held)
        look = await self._look(sweep_id)
        assert look is not None
        if look.row.state == SweepState.CANCELLING:
            await self._cancel(look)
        if await self._take_turn(look, held):
            return
        if look.row.state == SweepState.RUNNING:
            await self._begin(look, held)

    async def _look(self, sweep_id: str) -> Look | None:
        async with self._database.session() as session:
            row = await repo.get(session, sweep_id)
            if row is None:
                return None
            trials = await repo.trials(session, sweep_id)
            ids = [trial.job_id for trial in trials if trial.state == TrialState.SUBMITTED and trial.job_id]
            return Look(row, trials, await seen(session, ids))

    # --- ends -----------------------------------------------------------------------------------------------------

    async def _note_ends(self, look: Look, held: Held) -> None:
        ended = [(trial, job) for trial, job in look.live if Phase(job.phase).terminal]
        if not ended:
            return
        latest = await self._values.latest([job.id for _trial, job in ended], look.row.metric)
        async with self._database.begin() as session:
            if not await held(session):
                return
            for trial, job in ended:
                state = rules.ended_as(Phase(job.phase), (job.reason or {}).get("code"))
                value = latest.get(job.id)
                values = {
                    "state": str(state),
                    "value": None if value is None else value.finite,
                    "value_step": None if value is None else value.step,
                    "ended_at": job.finished_at or self._clock.now(),
                }
                await repo.write_trial(session, trial, values)
        self._wakeups.notify("sweeps")

    async def _cancel(self, look: Look) -> None:
        for trial, job in look.live:
            if job.desired != Desired.CANCEL and not Phase(job.phase).terminal:
                data = {"actor": look.row.cancelled_by or look.row.owner, "sweep": look.row.id, "trial": trial.number}
                await self._ledger.apply(job.id, Event.CANCEL, self._ledger.evidence(data=data))

    async def _take_turn(self, look: Look, held: Held) -> bool:
        """Whether the sweep has come to another state."""
        turn = rules.turn(SweepState(look.row.state), look.known, look.row.total)
        if turn is None:
            return False
        values: dict[str, Any] = {"state": str(turn.state)}
        if turn.failures:
            values["why"] = {"code": FAILING, "data": {"count": turn.failures}}
        if turn.state not in rules.ACTIVE:
            values["ended_at"] = self._clock.now()
        await self._write(look.row, held, values)
        return True

    async def _write(self, row: SweepRow, held: Held, values: dict[str, Any]) -> None:
        async with self._database.begin() as session:
            if await held(session):
                await repo.write(session, row, values)
        self._wakeups.notify("sweeps", "sweeper")

    # --- beginning ------------------------------------------------------------------------------------------------

    async def _begin(self, look: Look, held: Held) -> None:
        trials = {trial.number: trial for trial in look.trials}
        numbers = rules.to_begin(look.known, look.row.total, look.row.max_parallel)
        if numbers and (await self._accounts.user(look.row.owner)).disabled_at is not None:
            why = {"code": OWNER_DISABLED, "data": {}}
            await self._write(look.row, held, {"state": str(SweepState.STOPPING), "why": why})
            return
        for number in numbers:
            if number not in trials:
                planned = await self._plan(look.row, number, list(trials.values()), held)
                if planned is None:
                    return
                trials[number] = planned
            if not await self._submit(look.row, trials[number], held):
                return

    async def _plan(self, row: SweepRow, number: int, trials: Sequence[TrialRow], held: Held) -> TrialRow | None:
        """Write down which variant a trial is of, before anything is made of it; None when that is somebody else's by now."""
        trial = TrialRow(
            sweep_id=row.id,
            number=number,
            params=await self._variant(row, number, trials),
            state=str(TrialState.PLANNED),
            tries=1,
            earlier_jobs=[],
            rungs=[],
            created_at=self._clock.now(),
        )
        try:
            async with self._database.begin() as session:
                if not await held(session):
                    return None
                session.add(trial)
        except IntegrityError:  # another console has planned it
            return None
        return trial

    async def _variant(self, row: SweepRow, number: int, trials: Sequence[TrialRow]) -> dict[str, Any]:
        space, seed = space_of(row.sweep["params"]), row.sweep["seed"]
        planned = planned_variant(row.sweep["method"], space, seed, number, row.total)
        if planned is not None:
            return planned
        known = [_known(trial, row) for trial in trials]
        return await asyncio.to_thread(suggest, space, row.goal or "min", seed, number, known)

    async def _submit(self, row: SweepRow, trial: TrialRow, held: Held) -> bool:
        """Make the trial's job, or get the one that is there. False: no more trials can be begun now."""

        async def link(session: AsyncSession, job: JobRow) -> None:
            sweep = await repo.lock(session, row.id)
            if sweep is None or sweep.state != SweepState.RUNNING or not await held(session):
                raise _NotOursError
            if not await repo.write_trial(session, trial, {"state": str(TrialState.SUBMITTED), "job_id": job.id}):
                raise _NotOursError

        owner = Principal(row.owner_id, row.owner, False, frozenset(SCOPES))
        key = rules.trial_key(row.id, trial.number, trial.tries)
        request = Request(owner, owner, key, self._ingest_address())
        spec = trial_spec(row.job, row.id, row.name, trial.number, trial.params)
        try:
            job = await self._submissions.submit(request, spec, also=link)
        except _NotOursError:
            return False
        except RefusedError as error:
            await self._refused(row, trial, error.refusals, held)
            return False
        except ProblemError as error:
            await self._refused(row, trial, list(error.refusals), held)
            return False
        await self._adopt(row, trial, job.id)
        self._wakeups.notify("sweeps")
        return True

    async def _adopt(self, row: SweepRow, trial: TrialRow, job_id: str) -> None:
        """A job that was there under the trial's key already is the trial's; else this changes nothing."""
        async with self._database.begin() as session:
            await repo.write_trial(session, trial, {"state": str(TrialState.SUBMITTED), "job_id": job_id})
            if row.why is not None:
                await repo.write(session, row, {"why": None})

    async def _refused(self, row: SweepRow, trial: TrialRow, refusals: Sequence[Refusal], held: Held) -> None:
        """Wait where waiting helps; else begin no more trials, and say why."""
        data = {"number": trial.number, "refusals": [refusal.to_json() for refusal in refusals[:10]]}
        waits = bool(refusals) and all(refusal.code in _PASSING for refusal in refusals)
        if waits and (row.why or {}).get("code") == WAITS:
            return
        log.info("a trial was refused", sweep=row.id, trial=trial.number, codes=[item.code for item in refusals])
        values: dict[str, Any] = {"why": {"code": WAITS if waits else REFUSED, "data": data}}
        await self._write(row, held, values if waits else {**values, "state": str(SweepState.STOPPING)})


def _known(trial: TrialRow, row: SweepRow) -> KnownTrial:
    early = row.sweep.get("early_stopping")
    steps = (
        {rules.rung(early["min_steps"], early["factor"], one["rung"]): float(one["value"]) for one in trial.rungs}
        if early
        else {}
    )
    return KnownTrial(trial.params, TrialState(trial.state), trial.value, steps)
