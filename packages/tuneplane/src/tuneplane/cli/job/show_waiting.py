"""Why a job does not run yet, here or in the executor's own queue, as `tp job show` says it: the console's sentence, its place, who has what it needs, when it starts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tuneplane.cli.job.show_text import duration, local_time, moment
from tuneplane.cli.text import clean, fields
from tuneplane.client.types import Job, Waiting
from tuneplane.i18n import _, ngettext

SHOWN = 6
WANTS_ROOM = ("cards", "cpus", "turn")
IN_EXECUTOR_QUEUE = "executor"
EXECUTOR_QUEUE = "executor-queue"  # the condition that says the same
TELLS_PLACE = (*WANTS_ROOM, "drained", IN_EXECUTOR_QUEUE)  # their sentence names the place in line


def waiting_text(job: Job) -> str:
    """Empty for a job that waits for nothing."""
    waiting = job.get("waiting")
    if not waiting and job["phase"] != "queued":
        return ""
    lines = [_("waiting: {text}").format(text=clean(waiting["text"]))] if waiting else _held_back(job)
    details = fields(_details(waiting)) if waiting else ""
    return "".join(f"{line}\n" for line in lines) + "".join(f"  {line}\n" for line in details.splitlines())


def reasons(job: Job) -> list[str]:
    """Sentences: why it does not run, with its place in line, and the conditions that are true of it."""
    waiting = job.get("waiting")
    lines = [waiting["text"]] if waiting else []
    if waiting and waiting.get("position") is not None and waiting.get("kind") not in TELLS_PLACE:
        lines.append(_("number {position} in line").format(position=waiting["position"]))
    return lines + conditions(job)


def conditions(job: Job) -> list[str]:
    """`node-unreachable: …`; without what the sentence about its wait says already."""
    return [
        f"{clean(item['type'])}: {clean(item.get('text') or '')}".rstrip(": ")
        for item in job.get("conditions") or []
        if not (item["type"] == EXECUTOR_QUEUE and job.get("waiting"))
    ]


def rests_until(job: Job) -> str | None:
    """When the next attempt begins at the earliest, with how long that is; None when it does not rest."""
    until = moment(job.get("not_before"))
    if until is None:
        return None
    left = (until - datetime.now(UTC)).total_seconds()
    return _("{time}, in {left}").format(time=local_time(job.get("not_before")), left=duration(left))


def _held_back(job: Job) -> list[str]:
    """For a console that says nothing of its own about what is held back."""
    if job.get("paused"):
        return [_("waiting: it is paused, until somebody resumes it")]
    if job.get("approval") == "pending":
        return [_("waiting: an administrator has to approve it")]
    until = rests_until(job)
    return [_("waiting: its next attempt begins at {until}").format(until=until)] if until else []


def _details(waiting: Waiting) -> list[tuple[str, str | None]]:
    return [
        (_("place"), _place(waiting)),
        (_("held by"), _holders(waiting)),
        (_("starts"), _estimate(waiting)),
    ]


def _place(waiting: Waiting) -> str | None:
    position, ahead = waiting.get("position"), waiting.get("ahead")
    if position is None:
        return None
    if not ahead:
        return _("{position}, nobody is before it").format(position=position)
    text = ngettext("{position}, {count} run is before it", "{position}, {count} runs are before it", ahead)
    return text.format(position=position, count=ahead)


def _holders(waiting: Waiting) -> str | None:
    held_by = waiting.get("held_by") or []
    shown = [clean(_holder(item)) for item in held_by[:SHOWN]]
    return ", ".join(shown) + (", …" if len(held_by) > SHOWN else "") if shown else None


def _holder(item: dict[str, Any]) -> str:
    who = f"{item.get('job_id', '?')} @{item.get('owner', '?')}"
    gpus = item.get("gpus") or 0
    what = [ngettext("{count} GPU", "{count} GPUs", gpus).format(count=gpus)] if gpus else []
    until = local_time(item.get("until"))
    what += [_("until {time} at the latest").format(time=until)] if until else []
    return f"{who} ({', '.join(what)})" if what else who


def _estimate(waiting: Waiting) -> str | None:
    """Only where room is what is missing: anything else is not a matter of time. The executor's own queue only guesses."""
    if waiting.get("kind") == IN_EXECUTOR_QUEUE:
        guess = local_time(waiting.get("estimate"))
        return _("at about {time}").format(time=guess) if guess else None
    if waiting.get("kind") not in WANTS_ROOM:
        return None
    time = local_time(waiting.get("estimate"))
    if time is None:
        return _("nobody can say: runs that it waits for have no limit")
    return _("at {time} at the latest").format(time=time)
