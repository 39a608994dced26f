"""The calls of sweeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NotRequired, TypedDict
from urllib.parse import quote

from tuneplane.client.http import Console, jsonable
from tuneplane.client.types import Number, Reason, WireRefusal


class Objective(TypedDict):
    metric: str
    goal: str


class Why(TypedDict):
    """Why a sweep begins no trials now."""

    code: str
    text: NotRequired[str]
    hint: NotRequired[str]


class Best(TypedDict):
    """`number` and `job_id` are missing in listings."""

    value: Number
    number: NotRequired[int | None]
    job_id: NotRequired[str | None]


class Rung(TypedDict):
    step: int
    value: Number
    kept: bool


class Trial(TypedDict):
    """`state`: planned, submitted, succeeded, pruned, failed, cancelled. `value`: the objective as it was reported last."""

    number: int
    state: str
    params: dict[str, Any]
    job_id: NotRequired[str | None]
    phase: NotRequired[str | None]
    reason: NotRequired[Reason | None]
    value: NotRequired[Number | None]
    step: NotRequired[int | None]
    rungs: NotRequired[list[Rung]]


class Sweep(TypedDict):
    """`state`: running, stopping, cancelling, done, stopped, cancelled. `trials` is missing in listings."""

    id: str
    project: str
    experiment: str
    method: str
    state: str
    total: int
    counts: dict[str, int]
    owner: NotRequired[str]
    name: NotRequired[str | None]
    recipe: NotRequired[str]
    why: NotRequired[Why | None]
    objective: NotRequired[Objective | None]
    params: NotRequired[dict[str, Any]]
    early_stopping: NotRequired[dict[str, Any] | None]
    seed: NotRequired[int]
    max_parallel: NotRequired[int]
    best: NotRequired[Best | None]
    created_at: NotRequired[str]
    ended_at: NotRequired[str | None]
    trials: NotRequired[list[Trial]]


class SweepPage(TypedDict):
    items: list[Sweep]
    next_cursor: NotRequired[str | None]


class SweepDryRun(TypedDict):
    admitted: bool
    refusals: NotRequired[list[WireRefusal]]
    total: NotRequired[int]
    max_parallel: NotRequired[int]
    objective: NotRequired[Objective | None]
    variants: NotRequired[list[dict[str, Any]]]
    approval: NotRequired[dict[str, Any] | None]


class SweepConsole(Console):
    def create_sweep(self, request: dict[str, Any], idempotency_key: str) -> Sweep:
        """`request`: `{sweep, job}`. The same key gives the sweep that the first call made."""
        headers = {"Idempotency-Key": idempotency_key}
        return self._call("POST", "/sweeps", Sweep, json=jsonable(request), headers=headers, repeat=True)

    def dry_run_sweep(self, request: dict[str, Any]) -> SweepDryRun:
        """What admission says to all of it, and its variants. Changes nothing."""
        return self._call(
            "POST", "/sweeps", SweepDryRun, json=jsonable(request), params={"dry_run": "true"}, repeat=True
        )

    def iterate_sweeps(self, **filters: Any) -> Iterator[Sweep]:
        """Newest first; filters: project, state, limit (of a page)."""
        return self._pages(lambda cursor: self._get("/sweeps", SweepPage, {**filters, "cursor": cursor}))

    def sweep(self, sweep: str) -> Sweep:
        return self._get(_sweep(sweep), Sweep)

    def cancel_sweep(self, sweep: str) -> Sweep:
        return self._call("POST", f"{_sweep(sweep)}/cancel", Sweep, repeat=True)

    def resume_sweep(self, sweep: str) -> Sweep:
        return self._call("POST", f"{_sweep(sweep)}/resume", Sweep)


def _sweep(sweep: str) -> str:
    return f"/sweeps/{quote(sweep, safe='')}"
