"""The attempts of a job, shown as one run: what each came to, where it started from, how long it took, when the next starts."""

from __future__ import annotations

from tuneplane.cli.job.show_text import checkpoint_text, local_time, phase_word, reason_text, run_time
from tuneplane.cli.job.show_waiting import rests_until
from tuneplane.cli.text import table
from tuneplane.client.types import Attempt, Job
from tuneplane.i18n import _


def attempts_text(job: Job) -> str:
    """Empty for a job with one attempt that started from scratch."""
    attempts = job.get("attempts") or []
    if len(attempts) < 2 and not any(attempt.get("resumed") for attempt in attempts):
        return ""
    rows = [
        (
            attempt["n"],
            phase_word(attempt["phase"]),
            _start(attempt, job["id"]),
            local_time(attempt.get("started_at")),
            run_time(attempt),
            _why(job, attempt),
        )
        for attempt in attempts
    ]
    return "\n" + table([_("ATTEMPT"), _("PHASE"), _("FROM"), _("STARTED"), _("TIME"), _("REASON")], rows)


def _start(attempt: Attempt, run: str) -> str:
    point = attempt.get("resumed")
    if point:
        return checkpoint_text(point, run)
    return attempt.get("resume_from") or _("the start")


def _why(job: Job, attempt: Attempt) -> str:
    """Why it ended; of the one that is to come, when it starts."""
    if attempt.get("reason") or attempt["phase"] != "queued" or job["phase"] != "queued":
        return reason_text(attempt.get("reason"))
    if job.get("paused"):
        return _("starts when the job is resumed")
    until = rests_until(job)
    return _("starts at {until}").format(until=until) if until else ""
