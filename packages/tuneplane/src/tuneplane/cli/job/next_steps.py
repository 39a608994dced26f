"""What to do with a job next: the exact commands, each with what it does, for whoever sees it for the first time."""

from __future__ import annotations

from tuneplane.cli.job.show_text import checkpoint_text
from tuneplane.client.types import Job
from tuneplane.contract.words import TERMINAL_PHASES
from tuneplane.i18n import N_, _

type Steps = list[tuple[str, str]]

_FOLLOWERS = {
    "retry": N_("the run that repeats it"),
    "resume": N_("the run that goes on from it"),
    "export": N_("the run that exports a checkpoint of it"),
}


def next_steps(job: Job) -> Steps:
    """(command, what it does), the likeliest first."""
    run = job["id"]
    if job["phase"] in TERMINAL_PHASES:
        return [*_followers(job), *(_succeeded(job) if job["phase"] == "succeeded" else _ended(job))]
    if job.get("desired") == "cancel":
        return [_wait(run)]
    if job["phase"] == "queued":
        return _queued(job)
    if job.get("paused"):
        return [(f"tp job resume {run}", _("do not wait: its next attempt begins as soon as this one has stopped"))]
    return [
        (f"tp job logs {run} -f", _("follow its output")),
        (f"tp job pause {run}", _("let it save and stop, to go on later")),
        (f"tp job cancel {run}", _("end it")),
    ]


def _queued(job: Job) -> Steps:
    run = job["id"]
    if job.get("paused"):
        return [(f"tp job resume {run}", _going_on(job)), (f"tp job cancel {run}", _("end it for good"))]
    if job.get("approval") == "pending":
        return [
            (f"tp admin approvals approve {run}", _("what an administrator types to let it run")),
            (f"tp job wait {run}", _("wait until it is over")),
            (f"tp job cancel {run}", _("take it out of the queue")),
        ]
    if job.get("not_before"):
        return [
            (f"tp job logs {run} --tail 50", _("the last lines of the attempt before")),
            (f"tp job pause {run}", _("hold the next attempt back, to look first")),
            (f"tp job cancel {run}", _("make no further attempt")),
        ]
    return [_wait(run), (f"tp job cancel {run}", _("take it out of the queue"))]


def _going_on(job: Job) -> str:
    attempts = job.get("attempts") or []
    point = job.get("resume_point")
    if point:
        return _("go on from {checkpoint}").format(checkpoint=checkpoint_text(point, job["id"]))
    if len(attempts) > 1:
        return _("begin anew: it had saved no complete checkpoint")
    return _("let it run when there is room")


def _ended(job: Job) -> Steps:
    """A user's own mistake is mended in the lab; anything else may well pass the second time."""
    run, point, reason = job["id"], job.get("resume_point"), job.get("reason") or {}
    mend: Steps = [(f"tp submit {job['experiment']}{_profile(job)}", _("submit it again when it is mended"))]
    again: Steps = [(f"tp job retry {run}", _("the same again as a new run, from scratch"))]
    if point:
        text = _("a new run that goes on from {checkpoint}").format(checkpoint=checkpoint_text(point, run))
        again.insert(0, (f"tp job resume {run}", text))
    if job["phase"] == "cancelled":
        return again
    logs: Steps = [(f"tp job logs {run} --tail 50", _("its last lines"))]
    return [*logs, *mend, *again] if reason.get("class") == "user" else [*logs, *again]


def _profile(job: Job) -> str:
    """The option that asks for the same machines; empty where the pools cannot be said in one word."""
    pools = job.get("pools") or []
    if len(pools) != 1:
        return ""
    gpus = pools[0].get("nodes", 1) * (pools[0].get("gpus_per_node") or 0)
    return f" --profile {pools[0].get('series', '')}" + (f":{gpus}" if gpus else "")


def _succeeded(job: Job) -> Steps:
    run, origin = job["id"], job.get("origin")
    exported = origin is not None and origin["kind"] == "export"
    return [
        *([(f"tp submit {job['experiment']} --model run/{run}/export", _("train from it"))] if exported else ()),
        (f"tp job artifacts {run}", _("its files and checkpoints")),
        (f"tp job download {run}", _("bring them here")),
    ]


def _followers(job: Job) -> Steps:
    return [
        (
            f"tp job show {link['id']}",
            _(_FOLLOWERS.get(link["kind"], _FOLLOWERS["retry"])),
        )
        for link in (job.get("followers") or [])[-1:]
    ]


def _wait(run: str) -> tuple[str, str]:
    return f"tp job wait {run}", _("wait until it is over")
