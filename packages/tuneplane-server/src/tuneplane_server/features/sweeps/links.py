"""From a job to the sweep that it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuneplane.contract.names import is_run_id
from tuneplane_server.db.engine import Database
from tuneplane_server.features.sweeps import repo
from tuneplane_server.features.sweeps.trial_spec import SWEEP_LABEL, TRIAL_LABEL

NUMBER_DIGITS = 9  # of a trial's number, as the database holds it


@dataclass(frozen=True)
class TrialOf:
    """Where a job belongs. `name`: of the sweep; `number`: of the trial, from 0."""

    sweep_id: str
    name: str | None
    number: int


async def trial_of(database: Database, job_id: str, spec: Mapping[str, Any]) -> TrialOf | None:
    """Which trial of which sweep a job is or was a try of; `spec`: its JobSpec. Its labels only say where to look: anybody may
    write such labels, and a retry of the job keeps them.
    """
    labels = spec["metadata"].get("labels") or {}
    sweep_id, number = str(labels.get(SWEEP_LABEL, "")), str(labels.get(TRIAL_LABEL, ""))
    if not (is_run_id(sweep_id) and number.isascii() and number.isdecimal() and len(number) <= NUMBER_DIGITS):
        return None
    async with database.session() as session:
        found = await repo.trial_in(session, sweep_id, int(number))
    if found is None:
        return None
    sweep, trial = found
    if job_id not in (trial.job_id, *trial.earlier_jobs):
        return None
    return TrialOf(sweep.id, sweep.name, trial.number)
