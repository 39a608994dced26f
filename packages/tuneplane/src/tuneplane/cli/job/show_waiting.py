"""Why a queued job does not run yet, as `tp job show` says it: its place, what it needs, who has it, when it may start."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tuneplane.cli.job.show_text import duration, local_time, moment
from tuneplane.cli.text import clean, fields
from tuneplane.client.types import Job, Waiting
from tuneplane.i18n import _, ngettext

SHOWN = 6


def waiting_text(job: Job) -> str:
    """Empty for a job that waits for nothing."""
    if job["phase"] != "queued":
        return ""
    waiting = job.get("waiting")
    lines = [_("waiting: {text}").format(text=clean(waiting["text"]))] if waiting else _held_back(job)
    details = fields(_details(waiting)) if waiting else ""
    return "".join(f"{line}\n" for line in lines) + "".join(f"  {line}\n" for line in details.splitlines())


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
        (_("needs"), _joined(waiting.get("needs"), _need)),
        (_("free"), _joined(waiting.get("free"), _free)),
        (_("held by"), _joined(waiting.get("held_by"), _holder)),
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


def _need(item: dict[str, Any]) -> str:
    nodes, gpus = item.get("nodes") or 1, item.get("gpus_per_node") or 0
    if not gpus:
        return _("{nodes} × {cpus} CPUs and {memory} GB").format(
            nodes=nodes, cpus=f"{item.get('cpus') or 0:g}", memory=f"{item.get('memory_gb') or 0:g}"
        )
    text = ngettext("{gpus} {profile} on one node", "{nodes} × {gpus} {profile} on one node each", nodes)
    return text.format(nodes=nodes, gpus=gpus, profile=item.get("profile", "?"))


def _free(item: dict[str, Any]) -> str:
    return _("{count} {profile} on {node}").format(
        count=item.get("free", 0), profile=item.get("profile", ""), node=item.get("node", "?")
    )


def _holder(item: dict[str, Any]) -> str:
    gpus = item.get("gpus") or 0
    who = " ".join(part for part in (item.get("run"), f"@{item['owner']}" if item.get("owner") else None) if part)
    cards = ngettext("{count} GPU", "{count} GPUs", gpus).format(count=gpus)
    until = local_time(item.get("until"))
    if until:
        return _("{who} ({cards}, until {time} at the latest)").format(who=who or "?", cards=cards, time=until)
    return f"{who or '?'} ({cards})"


def _estimate(waiting: Waiting) -> str | None:
    if waiting.get("position") is None:
        return None
    time = local_time(waiting.get("estimate"))
    if time is None:
        return _("nobody knows when: the runs before it have no limit")
    return _("at {time} at the latest").format(time=time)


def _joined(items: list[dict[str, Any]] | None, text: Any) -> str | None:
    if not items:
        return None
    shown = [clean(text(item)) for item in items[:SHOWN]]
    return ", ".join(shown) + (", …" if len(items) > SHOWN else "")
