"""How a job looks to a reader: the shapes of the API, with every text in the reader's language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from tuneplane.i18n import _
from tuneplane_server.domain.own_queue import real_nodes
from tuneplane_server.domain.phases import TERMINAL
from tuneplane_server.domain.reasons import REASONS, fill
from tuneplane_server.features.jobs.event_texts import condition_text, event_text, why_no_more
from tuneplane_server.features.jobs.repo import BriefAttempt
from tuneplane_server.features.jobs.resume_points import ResumePoint, point_at
from tuneplane_server.features.jobs.tables import AttemptRow, JobEventRow, JobRow
from tuneplane_server.features.queue.views import WaitingView


class ReasonView(BaseModel):
    code: str
    class_: str = Field(serialization_alias="class")
    text: str
    hint: str
    anchor: str
    detail: str = ""


class ConditionView(BaseModel):
    type: str
    since: datetime
    text: str


class ResumePointView(BaseModel):
    """A checkpoint: the run and attempt that wrote it, its path below that attempt's out dir."""

    run: str
    attempt: int
    path: str
    step: int


class LinkView(BaseModel):
    """A run that this one follows or is followed by. `kind`: retry (from scratch), resume or export (from a checkpoint)."""

    id: str
    kind: str


class SweepLinkView(BaseModel):
    """The sweep that a run belongs to. `name`: null for one without; `trial`: its number, from 0."""

    id: str
    name: str | None
    trial: int


class FollowerView(LinkView):
    phase: str


class AttemptView(BaseModel):
    """`resume_from`: absolute path of the checkpoint it starts from; `resumed`: the same by its place."""

    n: int
    phase: str
    reason: ReasonView | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    resume_from: str | None
    resumed: ResumePointView | None


class RecipeView(BaseModel):
    name: str
    version: str


class RuntimeView(BaseModel):
    """`ran_in`: what the current attempt runs or ran in (`docker`, `podman`, `process`); None until it is launched.

    `isolated`: whether that separates it from its machine; None as long as nobody knows.
    """

    runtime_id: str | None
    image: str | None
    source: str
    ran_in: str | None = None
    isolated: bool | None = None


class JobView(BaseModel):
    """`paused`: held back, or being stopped for that. `not_before`: the next attempt rests until then. `nodes`: the machines of the
    current attempt, in the order of their ranks, each once; empty as long as they are not known. `sweep`, `followers` and
    `resume_point` (where it would go on) are None in listings and, the last, while it runs.
    """

    id: str
    owner: str
    project: str
    experiment: str
    display_name: str | None
    recipe: RecipeView
    phase: str
    desired: str
    paused: bool
    approval: str
    not_before: datetime | None
    priority: int
    origin: LinkView | None
    followers: list[FollowerView] | None
    sweep: SweepLinkView | None
    resume_point: ResumePointView | None
    conditions: list[ConditionView]
    reason: ReasonView | None
    cleanup: str
    attempt: int
    attempts: list[AttemptView]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    pools: list[dict[str, Any]]
    simulated: bool
    nodes: list[str]
    runtime: RuntimeView
    waiting: WaitingView | None
    latest: dict[str, Any]
    spec: dict[str, Any] | None


class EventView(BaseModel):
    seq: int
    time: datetime
    kind: str
    from_: str = Field(serialization_alias="from")
    to: str
    text: str
    ignored: bool
    data: dict[str, Any]


@dataclass(frozen=True)
class JobLinks:
    """What lies beside a job: the runs that follow it, the checkpoint it would go on from, the sweep it is a trial of."""

    followers: Sequence[JobRow]
    resume_point: ResumePoint | None
    sweep: SweepLinkView | None = None


def job_view(
    row: JobRow,
    attempts: Sequence[AttemptRow | BriefAttempt],
    latest: dict[str, Any] | None = None,
    *,
    links: JobLinks | None = None,
    waiting: WaitingView | None = None,
    pools: Sequence[dict[str, Any]] | None = None,
) -> JobView:
    """`latest`: metric -> {step, value, time}. Listings read no specs: they give the `pools` of it, and leave the links out."""
    return JobView(
        id=row.id,
        owner=row.owner,
        project=row.project,
        experiment=row.experiment,
        display_name=row.display_name,
        recipe=RecipeView(name=row.recipe, version=row.recipe_version),
        phase=row.phase,
        desired=row.desired,
        paused=row.paused and row.phase not in TERMINAL,
        approval=row.approval,
        not_before=row.not_before,
        priority=row.priority,
        origin=LinkView(id=row.origin_id, kind=row.origin_kind or "") if row.origin_id else None,
        followers=None if links is None else [_follower_view(item) for item in links.followers],
        sweep=None if links is None else links.sweep,
        resume_point=None if links is None else _point_view(links.resume_point),
        conditions=[_condition_view(item) for item in row.conditions],
        reason=reason_view(row.reason),
        cleanup=row.cleanup,
        attempt=row.attempt,
        attempts=[_attempt_view(item) for item in attempts],
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        pools=row.spec["spec"]["resources"]["pools"] if pools is None else list(pools),
        simulated=row.simulated,
        nodes=list(real_nodes((row.handle or {}).get("nodes", ()))),
        runtime=_runtime_view(row),
        waiting=waiting,
        latest=latest or {},
        spec=row.spec if pools is None else None,
    )


def reason_view(stored: dict[str, Any] | None) -> ReasonView | None:
    """The reason in the reader's language; a code that a later version wrote shows as it is."""
    if stored is None:
        return None
    entry, data = REASONS.get(stored["code"]), stored["data"]
    if entry is None:
        code = stored["code"]
        return ReasonView(code=code, class_="platform", text=code, hint="", anchor="reference/reasons")
    return ReasonView(
        code=entry.code,
        class_=entry.class_,
        text=fill(_(entry.text), data),
        hint=fill(_(entry.hint), data),
        anchor=entry.anchor,
        detail=" ".join(part for part in (str(data.get("detail", "")), why_no_more(data)) if part),
    )


def event_view(row: JobEventRow) -> EventView:
    return EventView(
        seq=row.seq,
        time=row.time,
        kind=row.kind,
        from_=row.from_phase,
        to=row.to_phase,
        text=event_text(row.kind, row.data, row.ignored),
        ignored=row.ignored,
        data=row.data,
    )


def _condition_view(stored: dict[str, Any]) -> ConditionView:
    since = datetime.fromisoformat(stored["since"])
    return ConditionView(type=stored["type"], since=since, text=condition_text(stored["type"], stored["data"]))


def _runtime_view(row: JobRow) -> RuntimeView:
    handle = row.handle or {}
    return RuntimeView(**row.runtime, ran_in=handle.get("runtime") or None, isolated=handle.get("isolated"))


def _attempt_view(row: AttemptRow | BriefAttempt) -> AttemptView:
    return AttemptView(
        n=row.n,
        phase=row.phase,
        reason=reason_view(row.reason),
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        resume_from=row.resume_from,
        resumed=_point_view(point_at(row.resume_from)),
    )


def _point_view(point: ResumePoint | None) -> ResumePointView | None:
    if point is None:
        return None
    return ResumePointView(run=point.run, attempt=point.attempt, path=point.name, step=point.step)


def _follower_view(row: JobRow) -> FollowerView:
    return FollowerView(id=row.id, kind=row.origin_kind or "", phase=row.phase)
