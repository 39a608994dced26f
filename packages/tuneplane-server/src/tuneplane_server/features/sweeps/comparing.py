"""Early stopping: trials that have come to a rung are compared there, and those that are not among the best are ended.

The rungs, and who goes on past them, are asynchronous successive halving's (arXiv:1810.05934), computed by Optuna from all comparisons
in the order in which they were made. A comparison is written once, with its place in that order, so that each look repeats those
before it and comes to the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.db.engine import Database
from tuneplane_server.domain.phases import Phase, StopCause
from tuneplane_server.domain.series_codec import json_number
from tuneplane_server.domain.sweeps import TrialState, rung
from tuneplane_server.domain.transitions import Change, Event
from tuneplane_server.features.jobs.ledger import Guard, Ledger
from tuneplane_server.features.jobs.seen import SeenJob
from tuneplane_server.features.sweeps import repo
from tuneplane_server.features.sweeps.optimizer import Comparison, go_on
from tuneplane_server.features.sweeps.tables import SweepRow, TrialRow
from tuneplane_server.features.sweeps.values import Value, Values

if TYPE_CHECKING:
    from tuneplane_server.features.jobs.tables import JobRow

type Held = Callable[[AsyncSession], Awaitable[bool]]


class Comparer:
    def __init__(self, database: Database, ledger: Ledger, values: Values) -> None:
        self._database, self._ledger, self._values = database, ledger, values

    async def compare(self, row: SweepRow, trials: Sequence[TrialRow], jobs: Mapping[str, SeenJob], held: Held) -> None:
        """Compare every trial that has come to its next rung, rung by rung, and end those that do not go on."""
        rungs = {trial.number: list(trial.rungs) for trial in trials}
        by_number = {trial.number: trial for trial in trials}
        live = [trial for trial in trials if trial.state == TrialState.SUBMITTED and trial.job_id in jobs]
        await self._end_again(live, jobs, held)
        latest = await self._values.latest([trial.job_id for trial in live if trial.job_id], row.metric)
        while arrived := await self._arrived(row, live, rungs, latest):
            kept = await asyncio.to_thread(self._judge, row, rungs, arrived)
            place = max((one["place"] for passed in rungs.values() for one in passed), default=-1)
            for (number, value), goes_on in zip(arrived.items(), kept, strict=True):
                place += 1
                one = {
                    "rung": len(rungs[number]),
                    "step": value.step,
                    "value": json_number(value.value),
                    "kept": goes_on,
                    "place": place,
                }
                rungs[number].append(one)
                trial = by_number[number]
                assert trial.job_id is not None
                if not await self._write(trial, jobs[trial.job_id], rungs[number], held):
                    return

    async def _arrived(
        self,
        row: SweepRow,
        live: Sequence[TrialRow],
        rungs: Mapping[int, Sequence[dict[str, Any]]],
        latest: Mapping[str, Value],
    ) -> dict[int, Value]:
        """Number of a trial -> its value at the rung that it has come to."""
        early = row.sweep["early_stopping"]
        assert row.metric is not None
        found: dict[int, Value] = {}
        for trial in live:
            passed, now = rungs[trial.number], latest.get(trial.job_id or "")
            step = rung(early["min_steps"], early["factor"], len(passed))
            if now is None or now.step < step or (passed and not passed[-1]["kept"]):
                continue
            value = await self._values.first_from(trial.job_id or "", row.metric, step, now.step)
            if value is not None:
                found[trial.number] = value
        return found

    @staticmethod
    def _judge(
        row: SweepRow, rungs: Mapping[int, Sequence[dict[str, Any]]], arrived: Mapping[int, Value]
    ) -> list[bool]:
        before = sorted(
            (
                (one["place"], Comparison(number, one["rung"], float(one["value"])))
                for number in rungs
                for one in rungs[number]
            ),
            key=lambda item: item[0],
        )
        new = [Comparison(number, len(rungs[number]), value.value) for number, value in arrived.items()]
        early = row.sweep["early_stopping"]
        every = [item for _place, item in before] + new
        return go_on(row.goal or "min", early["min_steps"], early["factor"], every)[len(before) :]

    async def _write(self, trial: TrialRow, job: SeenJob, rungs: Sequence[dict[str, Any]], held: Held) -> bool:
        """The comparison, and with it the end of the trial that does not go on. False when the lease is gone."""

        async def note(session: AsyncSession, _job: JobRow | None = None) -> None:
            await repo.write_trial(session, trial, {"rungs": list(rungs)})

        if not rungs[-1]["kept"] and await self._end(job, held, note):
            return True
        async with self._database.begin() as session:
            if not await held(session):
                return False
            await note(session)
        return True

    async def _end_again(self, live: Sequence[TrialRow], jobs: Mapping[str, SeenJob], held: Held) -> None:
        """Trials that were not to go on while their job was between two attempts, where there was nothing to stop."""
        for trial in live:
            assert trial.job_id is not None
            if trial.rungs and not trial.rungs[-1]["kept"]:
                await self._end(jobs[trial.job_id], held, None)

    async def _end(self, job: SeenJob, held: Held, also: Callable[..., Awaitable[None]] | None) -> bool:
        """Whether this has stopped it; one that is not running, or is being stopped already, is left alone."""
        if job.phase != Phase.RUNNING or job.stop_cause is not None:
            return False
        evidence = self._ledger.evidence(stop_cause=StopCause.PRUNED, data={"cause": str(StopCause.PRUNED)})
        guard = Guard(job.attempt, partial(held))
        result = await self._ledger.apply(job.id, Event.POLICY_STOP, evidence, guard=guard, also=also)
        return isinstance(result, Change)
