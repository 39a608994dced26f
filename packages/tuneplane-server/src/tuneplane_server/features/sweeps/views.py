"""How a sweep looks to a reader: the shapes of the API, with every text in the reader's language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from tuneplane.i18n import _, ngettext
from tuneplane_server.domain.series_codec import json_number
from tuneplane_server.domain.sweeps import Trial, TrialState, best
from tuneplane_server.features.jobs.seen import SeenJob
from tuneplane_server.features.jobs.views import ReasonView, reason_view
from tuneplane_server.features.sweeps.progress import FAILING, OWNER_DISABLED, REFUSED, WAITS
from tuneplane_server.features.sweeps.tables import SweepRow, TrialRow
from tuneplane_server.features.sweeps.values import Value

if TYPE_CHECKING:
    from tuneplane_server.features.sweeps.service import Considered

type Number = float | str
"""Strings for what JSON has no number for: "NaN", "Infinity", "-Infinity"."""


class ObjectiveView(BaseModel):
    metric: str
    goal: str


class WhyView(BaseModel):
    """Why a sweep begins no trials now. `refusals`: what admission said to the trial it wanted to begin."""

    code: str
    text: str
    hint: str
    refusals: list[dict[str, Any]]


class BestView(BaseModel):
    """`number`, `job_id`: None in listings."""

    value: Number
    number: int | None = None
    job_id: str | None = None


class RungView(BaseModel):
    """A comparison: the value at the first reported step at or beyond the rung, and whether the trial went on."""

    step: int
    value: Number
    kept: bool


class TrialView(BaseModel):
    """`number` from 0. `state`: planned, submitted, succeeded, pruned, failed, cancelled. `phase`, `reason`: of its job, None
    without one. `value`, `step`: the objective as it was reported last, also while it runs.
    """

    number: int
    state: str
    params: dict[str, Any]
    job_id: str | None
    earlier_jobs: list[str]
    phase: str | None
    reason: ReasonView | None
    value: Number | None
    step: int | None
    rungs: list[RungView]
    created_at: datetime
    ended_at: datetime | None


class SweepView(BaseModel):
    """`state`: running, stopping, cancelling, done, stopped, cancelled. `counts`: state of trials -> how many of them there are."""

    id: str
    owner: str
    project: str
    experiment: str
    name: str | None
    recipe: str
    method: str
    state: str
    why: WhyView | None
    objective: ObjectiveView | None
    params: dict[str, Any]
    early_stopping: dict[str, Any] | None
    seed: int
    total: int
    max_parallel: int
    counts: dict[str, int]
    best: BestView | None
    created_at: datetime
    ended_at: datetime | None


class SweepDetail(SweepView):
    trials: list[TrialView]


class DryRunView(BaseModel):
    """`variants`: of every trial, in order; empty for a Bayesian search, which chooses as results come."""

    admitted: bool
    refusals: list[dict[str, Any]]
    total: int
    max_parallel: int
    objective: ObjectiveView | None
    variants: list[dict[str, Any]]
    approval: dict[str, Any] | None


def sweep_view(row: SweepRow, counts: Mapping[str, int], best_value: float | None) -> SweepView:
    """As listings show it."""
    return SweepView(**_common(row), counts=dict(counts), best=None if best_value is None else _value_view(best_value))


def sweep_detail(
    row: SweepRow, trials: Sequence[TrialRow], jobs: Mapping[str, SeenJob], latest: Mapping[str, Value]
) -> SweepDetail:
    """`jobs`: of all trials; `latest`: what those that live have reported so far."""
    counts: dict[str, int] = {}
    for trial in trials:
        counts[trial.state] = counts.get(trial.state, 0) + 1
    views = [_trial_view(trial, jobs.get(trial.job_id or ""), latest.get(trial.job_id or "")) for trial in trials]
    return SweepDetail(**_common(row), counts=counts, best=_best_view(row, trials), trials=views)


def dry_run_view(found: Considered) -> DryRunView:
    return DryRunView(
        admitted=not found.refusals,
        refusals=[refusal.to_json() for refusal in found.refusals],
        total=found.total,
        max_parallel=found.max_parallel,
        objective=None if found.objective is None else ObjectiveView(**found.objective),
        variants=[] if found.refusals else found.variants(),
        approval=found.approval,
    )


def _common(row: SweepRow) -> dict[str, Any]:
    objective = None if row.metric is None or row.goal is None else ObjectiveView(metric=row.metric, goal=row.goal)
    return {
        **{name: getattr(row, name) for name in ("id", "owner", "project", "experiment", "name", "recipe", "state")},
        **{name: getattr(row, name) for name in ("total", "max_parallel", "created_at", "ended_at")},
        "method": row.sweep["method"],
        "params": row.sweep["params"],
        "seed": row.sweep["seed"],
        "early_stopping": row.sweep.get("early_stopping"),
        "objective": objective,
        "why": _why_view(row),
    }


def _best_view(row: SweepRow, trials: Sequence[TrialRow]) -> BestView | None:
    if row.goal is None:
        return None
    found = best([Trial(item.number, TrialState(item.state), item.value) for item in trials], row.goal)
    if found is None or found.value is None:
        return None
    job_id = next(item.job_id for item in trials if item.number == found.number)
    return BestView(value=json_number(found.value), number=found.number, job_id=job_id)


def _value_view(value: float) -> BestView:
    return BestView(value=json_number(value))


def _trial_view(trial: TrialRow, job: SeenJob | None, latest: Value | None) -> TrialView:
    value, step = trial.value, trial.value_step
    if trial.state == TrialState.SUBMITTED and latest is not None:
        value, step = latest.value, latest.step
    return TrialView(
        number=trial.number,
        state=trial.state,
        params=trial.params,
        job_id=trial.job_id,
        earlier_jobs=trial.earlier_jobs,
        phase=None if job is None else job.phase,
        reason=None if job is None else reason_view(job.reason),
        value=None if value is None else json_number(value),
        step=step,
        rungs=[RungView(step=one["step"], value=one["value"], kept=one["kept"]) for one in trial.rungs],
        created_at=trial.created_at,
        ended_at=trial.ended_at,
    )


def _why_view(row: SweepRow) -> WhyView | None:
    if row.why is None:
        return None
    code, data = row.why["code"], row.why["data"]
    refusals = data.get("refusals", [])
    said = "; ".join(item["message"] for item in refusals)
    hints = " ".join(item["hint"] for item in refusals if item.get("hint"))
    resume = _("mend it, then go on with tp sweep resume {id}").format(id=row.id)
    if code == WAITS:
        text = _("trial {number} waits to be submitted: {why}").format(number=data["number"], why=said)
        return WhyView(code=code, text=text, hint=hints, refusals=refusals)
    if code == REFUSED:
        text = _("trial {number} was refused, so no further ones are begun: {why}").format(
            number=data["number"], why=said
        )
        return WhyView(code=code, text=text, hint=f"{hints} {resume}".strip(), refusals=refusals)
    if code == FAILING:
        count = data["count"]
        text = ngettext(
            "{count} trial failed, so no further ones are begun",
            "{count} trials failed one after the other, so no further ones are begun",
            count,
        ).format(count=count)
        hint = _("tp job show and tp job logs of the newest ones say why; {resume}").format(resume=resume)
        return WhyView(code=code, text=text, hint=hint, refusals=[])
    if code == OWNER_DISABLED:
        return WhyView(
            code=code,
            text=_("its owner may not sign in any more, so no further trials are begun"),
            hint=_("an administrator can let them in again: tp admin user enable"),
            refusals=[],
        )
    return WhyView(code=code, text=code, hint="", refusals=[])
