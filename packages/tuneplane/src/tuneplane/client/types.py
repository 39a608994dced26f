"""Answers of `/api/v1` as the client reads them. A newer console may send more keys; these are the ones relied on."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

Number = float | int | str  # "NaN", "Infinity" and "-Infinity" travel as text


class ServerInfo(TypedDict):
    name: str
    version: str
    api: str
    catalog_digest: NotRequired[str | None]
    executor: NotRequired[str | None]
    setup_needed: NotRequired[bool]


class DeviceStart(TypedDict):
    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: NotRequired[str]
    interval: int
    expires_in: int


class DeviceToken(TypedDict):
    token: str
    username: str


class TokenInfo(TypedDict):
    name: str
    scopes: list[str]
    expires_at: NotRequired[str | None]


class Me(TypedDict):
    username: str
    admin: NotRequired[bool]
    token: NotRequired[TokenInfo | None]


class Drain(TypedDict):
    """Maintenance: nothing is started while it is on."""

    on: bool
    text: NotRequired[str]
    since: NotRequired[str | None]
    by: NotRequired[str | None]


class Period(TypedDict):
    start: str
    end: str


class Quota(TypedDict):
    """`own`: the fields that are set for this one; `limits`: what is in force; `sources`: field -> own or default. name None: a default."""

    scope: str
    name: str | None
    own: dict[str, Any]
    limits: dict[str, Any]
    sources: dict[str, Any]
    version: int
    updated_at: NotRequired[str | None]
    updated_by: NotRequired[str | None]


class QuotaReport(Quota):
    """With its use, in the units of the limits, and the UTC day and month that hours are counted in."""

    use: dict[str, Number]
    day: Period
    month: Period


class OwnQuota(TypedDict):
    items: list[QuotaReport]
    drain: Drain


class MethodDigests(TypedDict):
    version: str
    digest: str
    manifest_digest: NotRequired[str]
    template_digest: NotRequired[str]


class RecipeFiles(TypedDict):
    """Path -> content in base64."""

    files: dict[str, str]


class Catalog(TypedDict):
    digest: str
    methods: dict[str, MethodDigests]


class HardwareProfile(TypedDict):
    """`gpus_per_node` cards, `cpus` and `memory_gb` of one node."""

    name: str
    gpus_per_node: int
    nodes: NotRequired[int]
    total_gpus: NotRequired[int]
    free_gpus: NotRequired[int | None]
    cpus: NotRequired[float | None]
    memory_gb: NotRequired[float | None]
    simulated: NotRequired[bool]


class Hardware(TypedDict):
    """`next_cursor`: of the nodes, where there are more of them."""

    profiles: list[HardwareProfile]
    nodes: NotRequired[list[dict[str, Any]]]
    next_cursor: NotRequired[str | None]
    capabilities: NotRequired[dict[str, Any]]


class LatestFigures(TypedDict):
    """`part`: machine, job or gpu; `gpu`: the card's index on its node."""

    node: str
    part: str
    figures: dict[str, float]
    gpu: NotRequired[int | None]
    seen_at: NotRequired[str]


class JobHardware(TypedDict):
    latest: list[LatestFigures]
    simulated: NotRequired[bool]


class RecipeName(TypedDict):
    name: str
    version: str


# The wire's keys `class` and `from` are Python's words, hence the functional form.
Reason = TypedDict(
    "Reason",
    {
        "code": str,
        "class": NotRequired[str],
        "text": NotRequired[str],
        "hint": NotRequired[str],
        "detail": NotRequired[str],
        "anchor": NotRequired[str | None],
    },
)


class Condition(TypedDict):
    type: str
    since: NotRequired[str | None]
    text: NotRequired[str]


class ResumePoint(TypedDict):
    """A checkpoint: the run and attempt that wrote it."""

    step: int
    run: NotRequired[str]
    attempt: NotRequired[int]
    path: NotRequired[str]


class Link(TypedDict):
    """A run that this one follows or is followed by: `retry` from scratch, `resume` from a checkpoint."""

    id: str
    kind: str
    phase: NotRequired[str]


class SweepLink(TypedDict):
    """The sweep that a run is a trial of; `trial` from 0."""

    id: str
    name: NotRequired[str | None]
    trial: int


class Attempt(TypedDict):
    n: int
    phase: str
    reason: NotRequired[Reason | None]
    created_at: NotRequired[str | None]
    started_at: NotRequired[str | None]
    finished_at: NotRequired[str | None]
    resume_from: NotRequired[str | None]
    resumed: NotRequired[ResumePoint | None]


class Latest(TypedDict):
    step: int
    value: Number
    time: NotRequired[float | str | None]


class Waiting(TypedDict):
    """Why a job does not run, here or in the executor's own queue (`kind: executor`). `position`: its place in the line, from 1;
    `ahead`: how many runs are before it.
    """

    text: str
    kind: NotRequired[str]
    position: NotRequired[int | None]
    ahead: NotRequired[int | None]
    needs: NotRequired[list[dict[str, Any]] | None]
    free: NotRequired[list[dict[str, Any]] | None]
    held_by: NotRequired[list[dict[str, Any]] | None]
    estimate: NotRequired[Any]


class Job(TypedDict):
    id: str
    phase: str
    experiment: str
    project: str
    owner: NotRequired[str]
    display_name: NotRequired[str | None]
    recipe: NotRequired[RecipeName]
    desired: NotRequired[str]
    paused: NotRequired[bool]
    approval: NotRequired[str]
    not_before: NotRequired[str | None]
    priority: NotRequired[int]
    origin: NotRequired[Link | None]
    followers: NotRequired[list[Link] | None]
    sweep: NotRequired[SweepLink | None]
    resume_point: NotRequired[ResumePoint | None]
    conditions: NotRequired[list[Condition]]
    reason: NotRequired[Reason | None]
    cleanup: NotRequired[str]
    attempt: NotRequired[int]
    attempts: NotRequired[list[Attempt]]
    created_at: NotRequired[str | None]
    started_at: NotRequired[str | None]
    finished_at: NotRequired[str | None]
    pools: NotRequired[list[dict[str, Any]]]
    simulated: NotRequired[bool]
    nodes: NotRequired[list[str]]  # machines of the current attempt by rank
    runtime: NotRequired[Any]
    waiting: NotRequired[Waiting | None]
    latest: NotRequired[dict[str, Latest]]
    spec: NotRequired[dict[str, Any]]


class JobPage(TypedDict):
    items: list[Job]
    next_cursor: NotRequired[str | None]


JobEvent = TypedDict(
    "JobEvent",
    {
        "seq": int,
        "time": str,
        "kind": str,
        "from": NotRequired[str | None],
        "to": NotRequired[str | None],
        "text": NotRequired[str],
        "data": NotRequired[dict[str, Any] | None],
    },
)


class EventPage(TypedDict):
    items: list[JobEvent]
    next_cursor: NotRequired[str | None]


class LogLine(TypedDict):
    text: str
    attempt: NotRequired[int]
    rank: NotRequired[int]
    fd: NotRequired[str]
    time: NotRequired[float | str | None]
    id: NotRequired[str]
    level: NotRequired[str | None]
    match: NotRequired[bool]


class LogPage(TypedDict):
    """`more`: the next page is there already. `end`: the job is over and nothing follows."""

    items: list[LogLine]
    next_cursor: NotRequired[str | None]
    more: NotRequired[bool]
    end: NotRequired[bool]
    dropped_bytes: NotRequired[int]
    removed_at: NotRequired[str | None]


class MetricSummary(TypedDict):
    latest: Latest
    min: NotRequired[Number | None]
    max: NotRequired[Number | None]
    count: NotRequired[int]
    attempts: NotRequired[list[int]]


class Metrics(TypedDict):
    metrics: dict[str, MetricSummary]
    removed_at: NotRequired[str | None]


class CurvePart(TypedDict):
    """Columns of equal length. `x`: where the points lie on the axis asked for, None where that is not known."""

    attempt: int
    step: list[int]
    value: list[Number]
    time: NotRequired[list[float]]
    x: NotRequired[list[Number | None] | None]
    count: NotRequired[int]


class Curves(TypedDict):
    series: dict[str, list[CurvePart]]


class SampleItem(TypedDict):
    step: int
    kind: str
    data: dict[str, Any]
    id: NotRequired[Any]
    attempt: NotRequired[int]
    rank: NotRequired[int]
    time: NotRequired[float | str]
    reward: NotRequired[Number | None]


class SamplePage(TypedDict):
    items: list[SampleItem]
    next_cursor: NotRequired[str | None]
    removed_at: NotRequired[str | None]


class ArtifactFile(TypedDict):
    path: str
    size: int
    attempt: NotRequired[int]
    sha256: NotRequired[str | None]


class Checkpoint(TypedDict):
    path: str
    step: int
    complete: bool
    attempt: NotRequired[int]
    problem: NotRequired[str | None]
    size: NotRequired[int | None]


class ExportEntry(TypedDict):
    name: str
    path: str
    files: int
    size: int
    attempt: NotRequired[int]


class Artifacts(TypedDict):
    files: list[ArtifactFile]
    checkpoints: list[Checkpoint]
    exports: NotRequired[list[ExportEntry]]
    out_dir: NotRequired[str | None]


class WireRefusal(TypedDict):
    code: str
    message: str
    hint: NotRequired[str]
    field: NotRequired[str]
    file: NotRequired[str]
    line: NotRequired[int]


class DryRun(TypedDict):
    admitted: bool
    refusals: NotRequired[list[WireRefusal]]
    plan: NotRequired[dict[str, Any] | None]
    approval: NotRequired[dict[str, Any] | None]  # {text, rules}: who has to approve it, and by which figure
    waiting: NotRequired[Waiting | None]  # what it would wait for


class ExportDryRun(DryRun):
    jobspec: dict[str, Any]
