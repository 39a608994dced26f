"""A console that is killed behind any line, or that is not alone: no trial is lost and none has two jobs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tuneplane_server.sweeps.build import Sweeps
from tuneplane_server.features.jobs.submission import Submissions
from tuneplane_server.features.sweeps import repo
from tuneplane_server.features.sweeps.progress import SweepProgress


class KilledError(BaseException):
    """As SIGKILL: nothing catches it, nothing is tidied up."""


def killed_behind(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, before: bool = False) -> None:
    """The next call of it does its work (or does not), and then the process is gone."""
    real = getattr(owner, name)

    async def dying(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(owner, name, real)
        if not before:
            await real(*given, **named)
        raise KilledError

    monkeypatch.setattr(owner, name, dying)


async def advance(sweeps: Sweeps, sweep_id: str) -> None:
    async def held(_session: Any) -> bool:
        return True

    await sweeps.harness.services.sweep_progress.advance(sweep_id, held)


KILLS = [
    (SweepProgress, "_plan", True),
    (SweepProgress, "_plan", False),
    (Submissions, "submit", True),
    (Submissions, "_insert", False),  # in the middle of the transaction
    (Submissions, "submit", False),
    (SweepProgress, "_adopt", False),
    (repo, "write_trial", False),
]


@pytest.mark.parametrize(("owner", "name", "before"), KILLS)
async def test_a_kill_while_a_trial_begins_costs_nothing(
    sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, before: bool
) -> None:
    row = await sweeps.create()
    killed_behind(monkeypatch, owner, name, before=before)
    with pytest.raises(KilledError):
        await advance(sweeps, row.id)
    await sweeps.harness.restart()
    await advance(sweeps, row.id)
    trials = await sweeps.trials(row.id)
    assert [trial.state for trial in trials] == ["submitted", "submitted"]
    assert sorted(trial.job_id or "" for trial in trials) == sorted(await sweeps.jobs())


async def test_a_trial_whose_job_is_there_already_under_its_key_gets_that_one(sweeps: Sweeps) -> None:
    row = await sweeps.create()
    await advance(sweeps, row.id)
    first = (await sweeps.trials(row.id))[0]
    async with sweeps.harness.services.database.begin() as session:
        await repo.write_trial(session, first, {"state": "planned", "job_id": None})
    await advance(sweeps, row.id)
    assert (await sweeps.trials(row.id))[0].job_id == first.job_id
    assert len(await sweeps.jobs()) == 2


async def test_a_submission_that_comes_after_the_cancel_is_taken_back(
    sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = await sweeps.create()
    real = SweepProgress._submit

    async def late(self: Any, *given: Any) -> bool:
        await sweeps.cancel(row.id)  # while this console slept
        return await real(self, *given)

    monkeypatch.setattr(SweepProgress, "_submit", late)
    await advance(sweeps, row.id)
    assert await sweeps.jobs() == []
    await advance(sweeps, row.id)
    assert (await sweeps.get(row.id)).state == "cancelled"


async def test_whoever_lost_its_lease_writes_nothing(sweeps: Sweeps) -> None:
    row = await sweeps.create()

    async def lost(_session: Any) -> bool:
        return False

    await sweeps.harness.services.sweep_progress.advance(row.id, lost)
    assert await sweeps.trials(row.id) == []
    assert await sweeps.jobs() == []


async def test_two_consoles_make_each_job_once(sweeps: Sweeps) -> None:
    row = await sweeps.create()
    other = sweeps.harness.replica()
    theirs = Sweeps(other, sweeps.user)
    try:
        for _round in range(3):
            await sweeps.look()
            await theirs.look()
        assert await sweeps.states(row.id) == ["submitted", "submitted"]
        assert len(await sweeps.jobs()) == 2
    finally:
        await other.services.database.close()
