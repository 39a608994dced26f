"""A job as its row in the list and the head of its page show it."""

from __future__ import annotations

from typing import Any

from tuneplane.contract.words import PHASES, TERMINAL_PHASES
from tuneplane_server.console.display import PHASE_ICONS, PHASE_WORDS, seconds_between
from tuneplane_server.console.i18n import N_, _
from tuneplane_server.domain.transitions import EXECUTOR_QUEUE, EXECUTOR_STARTING

ALL = N_("All")
REASON_CLASSES = {
    "user": N_("the experiment"),
    "infra": N_("the infrastructure"),
    "platform": N_("TunePlane itself"),
    "policy": N_("a limit somebody set"),
}
_REASON_TONES = {"failed": "bad", "lost": "bad", "cancelled": "info"}
# Shown first when the method names no main metric, or has not reported it yet.
_USUAL_METRICS = ("train/loss", "train/reward", "validation/loss")


def present(job: dict[str, Any], primary: str | None = None) -> dict[str, Any]:
    """`job` (API shape) with what templates need beside it. `primary` is the method's main metric, None if it has none."""
    live = job["phase"] not in TERMINAL_PHASES
    spec = (job.get("spec") or {}).get("spec") or {}
    framework = spec.get("framework") or {}
    return job | {
        "live": live,
        "seconds": seconds_between(job["started_at"], job["finished_at"]),
        "main": main_metric(job.get("latest") or {}, primary),
        "marks": _marks(job, live),
        "reason_tone": _REASON_TONES.get(job["phase"], "warn"),
        "machines": sum(pool["nodes"] for pool in job["pools"]),
        "isolated": (job.get("runtime") or {}).get("isolated") is not False,
        "observability": framework.get("observability", "platform"),
        "observability_url": framework.get("observability_url"),
    }


def main_metric(latest: dict[str, Any], primary: str | None) -> dict[str, Any] | None:
    """{name, step, value} of the metric that stands for the job, None before the first value."""
    usual = [name for name in (primary, *_USUAL_METRICS) if name]
    others = sorted(name for name in latest if name.startswith(("train/", "validation/")))
    for name in [*usual, *others]:
        if name in latest:
            return {"name": name} | latest[name]
    return None


def reason_class(name: str) -> str:
    """Whose matter a failure is, in words."""
    return _(REASON_CLASSES[name]) if name in REASON_CLASSES else name


def phase_tabs(counts: dict[str, int] | None = None) -> list[dict[str, Any]]:
    """The filters by phase: all, then every phase in the order of a job's life."""
    known = counts or {}
    tabs = [{"value": "", "word": ALL, "icon": "", "count": sum(known.values()) if counts is not None else None}]
    return tabs + [
        {
            "value": phase,
            "word": PHASE_WORDS[phase],
            "icon": PHASE_ICONS[phase],
            "count": known.get(phase, 0) if counts is not None else None,
        }
        for phase in PHASES
    ]


def _marks(job: dict[str, Any], live: bool) -> list[dict[str, Any]]:
    """Small signs beside the phase: what is true of the job for now that is no phase."""
    # What waits in the executor's own queue says so in its sentence, as what waits in ours.
    marks = [
        _mark(item["type"], item["text"], "info" if item["type"] == EXECUTOR_STARTING else "warn", condition=True)
        for item in job["conditions"]
        if item["type"] != EXECUTOR_QUEUE
    ]
    if live and job["desired"] == "cancel":
        marks.append(_mark(_("cancel asked"), _("it is being stopped"), "warn"))
    if job.get("waiting") and job["phase"] == "starting":  # in the executor's own queue
        marks.append(_mark(_("waiting"), job["waiting"]["text"], "info"))
    held = _held_back(job) if live else None
    return [*marks, _mark(*held, "info")] if held else marks


def _mark(text: str, title: str, tone: str, *, condition: bool = False) -> dict[str, Any]:
    """`condition`: the job's page says it in a sentence of its own."""
    return {"text": text, "title": title, "tone": tone, "condition": condition}


def _held_back(job: dict[str, Any]) -> tuple[str, str] | None:
    """(mark, title) of a job that would not run even if everything were free."""
    if job.get("paused"):
        if job["phase"] == "queued":
            return _("paused"), _("It waits until somebody resumes it.")
        return _("pausing"), _("It has its grace time to save; then it waits.")
    if job["phase"] != "queued":
        return None
    if job.get("approval") == "pending":
        return _("unapproved"), _("It waits for an administrator.")
    return (_("resting"), _("Its next attempt begins later.")) if job.get("not_before") else None
