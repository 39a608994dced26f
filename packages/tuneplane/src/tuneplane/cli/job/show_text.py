"""A job in words: times, phases, the one line that says why it waits or failed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tuneplane.cli.text import clean
from tuneplane.client.types import Attempt, Job, Reason, ResumePoint
from tuneplane.contract.words import TERMINAL_PHASES
from tuneplane.i18n import _

_PHASE_WORDS = {
    "queued": lambda: _("queued"),
    "starting": lambda: _("starting"),
    "running": lambda: _("running"),
    "finishing": lambda: _("finishing"),
    "succeeded": lambda: _("succeeded"),
    "failed": lambda: _("failed"),
    "cancelled": lambda: _("cancelled"),
    "lost": lambda: _("lost"),
}


def phase_word(phase: str) -> str:
    """The phase in the reader's language; one that this client does not know stays as it is."""
    word = _PHASE_WORDS.get(phase)
    return word() if word else phase


def state_word(job: Job) -> str:
    """The phase, with what holds a queued job back or stops a live one: `queued, paused`."""
    phase = phase_word(job["phase"])
    mark = _mark(job)
    return _("{phase}, {mark}").format(phase=phase, mark=mark) if mark else phase


def _mark(job: Job) -> str:
    if job["phase"] in TERMINAL_PHASES:
        return ""
    if job.get("desired") == "cancel":
        return _("cancel asked")
    queued = job["phase"] == "queued"
    if job.get("paused"):
        return _("paused") if queued else _("pausing")
    if (job.get("waiting") or {}).get("kind") == "executor":  # passed on, and in the executor's own queue
        return _("waiting")
    if queued and job.get("approval") == "pending":
        return _("unapproved")
    return _("resting") if queued and job.get("not_before") else ""


def checkpoint_text(point: ResumePoint, run: str) -> str:
    """`step 20`, or with the run that wrote it when that is another one than `run`."""
    if point.get("run") in (None, run):
        return _("step {step}").format(step=point["step"])
    return _("step {step} of {run}").format(step=point["step"], run=clean(str(point.get("run"))))


def moment(value: Any) -> datetime | None:
    """A time of the wire (ISO 8601 or Unix seconds); None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return datetime.fromtimestamp(value, UTC)
        except (OverflowError, ValueError, OSError):
            return None
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def local_time(value: Any) -> str | None:
    """For people, in their own time zone."""
    found = moment(value)
    return found.astimezone().strftime("%Y-%m-%d %H:%M:%S") if found else None


def age(value: Any, now: datetime | None = None) -> str:
    """How long ago, in one unit: `12 s`, `3 min`, `5 h`, `2 d`."""
    found = moment(value)
    if found is None:
        return "-"
    return duration(((now or datetime.now(UTC)) - found).total_seconds())


def duration(seconds: float) -> str:
    seconds = max(0, int(seconds))
    for size, unit in ((86400, _("d")), (3600, _("h")), (60, _("min"))):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} {_('s')}"


def run_time(job: Job | Attempt) -> str:
    """From start to end, or to now."""
    started, finished = moment(job.get("started_at")), moment(job.get("finished_at"))
    if started is None:
        return "-"
    return duration(((finished or datetime.now(UTC)) - started).total_seconds())


def reason_text(reason: Reason | None) -> str:
    """What ended the job, with its code; empty when nothing did."""
    if not reason:
        return ""
    text = reason.get("text") or ""
    return f"{text} [{reason['code']}]" if text else reason["code"]


def why(job: Job) -> str:
    """One line: why it failed, or why it waits; empty when there is nothing to explain."""
    if job.get("reason"):
        return reason_text(job.get("reason"))
    waiting = job.get("waiting")
    return waiting["text"] if waiting else ""


def runs_in(job: Job) -> str | None:
    """`docker`, or `process, not isolated from its machine`; None before it was launched."""
    runtime = job.get("runtime") or {}
    where = runtime.get("ran_in")
    if where and runtime.get("isolated") is False:
        return _("{runtime}, not isolated from its machine").format(runtime=where)
    return where


def pools_text(job: Job) -> str:
    """`2×8 h200`, several joined by +."""
    parts = []
    for pool in job.get("pools") or []:
        gpus, nodes, series = pool.get("gpus_per_node"), pool.get("nodes", 1), pool.get("series", "?")
        count = f"{nodes}×{gpus}" if nodes != 1 else f"{gpus}"
        parts.append(f"{count} {series}" if gpus else f"{nodes}× {series}" if nodes != 1 else f"{series}")
    text = " + ".join(parts)
    return f"{text} ({_('simulated')})" if job.get("simulated") and text else text
