"""Follow a job: its output as it comes, its phase until it is over. Outlives restarts of the console."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

from tuneplane.cli.exits import FAILED, OK
from tuneplane.cli.job.log_lines import LogPrinter
from tuneplane.cli.job.removed import say_removed
from tuneplane.cli.job.show_text import phase_word, why
from tuneplane.cli.text import clean, note
from tuneplane.client.changes import Changes
from tuneplane.client.errors import UnreachableError
from tuneplane.client.http import Console
from tuneplane.client.types import Job, LogPage
from tuneplane.contract.words import TERMINAL_PHASES
from tuneplane.i18n import _
from tuneplane.lab.plan import show_size

Result = TypeVar("Result")

PAGE_LINES = 1000
OUTAGE_SECONDS = 600.0  # a console that is being upgraded is back by then
OUTAGE_PAUSES = (1.0, 2.0, 5.0, 10.0)


def follow_logs(console: Console, job: str, query: dict[str, Any], printer: LogPrinter, *, follow: bool) -> None:
    """Print what is there; with `follow` also what comes, until the job is over and its output complete."""
    patience = Patience()
    cursor: str | None = None
    with Changes(console, job) if follow else nullcontext() as changes:
        while True:
            page = patience.call(
                lambda at=cursor: console.logs(
                    job, cursor=at, limit=PAGE_LINES, **(query if at is None else {**query, "tail": None})
                )
            )
            for line in page["items"]:
                printer.print(line)
            printer.flush()
            following = page.get("next_cursor")
            if page.get("end") or not following:
                _say_missing(page)
                return
            cursor = following
            if page.get("more"):
                continue
            if changes is None:
                _say_missing(page)
                return
            changes.wait()


def _say_missing(page: LogPage) -> None:
    say_removed(page.get("removed_at"))
    dropped = page.get("dropped_bytes") or 0
    if dropped:
        note(_("{size} of output beyond the run's quota were not kept").format(size=show_size(dropped)))


def wait_until_over(
    console: Console,
    job: str,
    *,
    timeout: float | None = None,
    on_look: Callable[[Job], None] | None = None,
) -> Job:
    """The job in its terminal phase, or as it is when `timeout` seconds have passed. `on_look` is told it at every look."""
    patience = Patience()
    deadline = None if timeout is None else time.monotonic() + timeout
    with Changes(console, job) as changes:
        while True:
            found = patience.call(lambda: console.job(job))
            if on_look:
                on_look(found)
            if found["phase"] in TERMINAL_PHASES:
                return found
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return found
            changes.wait(None if left is None else min(left, 5.0))


def result_code(job: Job) -> int:
    """0 for a job that succeeded, 1 for every other end and for one that is not over."""
    return OK if job["phase"] == "succeeded" else FAILED


def result_line(job: Job) -> str:
    """One line for the end of a job, with the hint of its reason."""
    explanation = why(job)
    line = _("{run} {phase}: {why}") if explanation else _("{run} {phase}")
    text = line.format(run=job["id"], phase=phase_word(job["phase"]), why=clean(explanation))
    hint = (job.get("reason") or {}).get("hint")
    return f"{text}\n  → {clean(hint)}" if hint else text


class Patience:
    """Calls the console, and when it is away waits for it, for a bounded time. A job does not stop because its console does."""

    def __init__(
        self,
        limit: float = OUTAGE_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit, self._sleep, self._clock = limit, sleep, clock
        self._heard = False

    def call(self, ask: Callable[[], Result]) -> Result:
        """The answer. An outage before the first answer is an error at once: then it is more likely a wrong address."""
        since: float | None = None
        failures = 0
        while True:
            try:
                answer = ask()
            except UnreachableError as error:
                now = self._clock()
                since = now if since is None else since
                if not self._heard or now - since > self._limit:
                    raise
                if failures == 0:
                    note(_("{why}; waiting for it").format(why=error.message))
                self._sleep(OUTAGE_PAUSES[min(failures, len(OUTAGE_PAUSES) - 1)])
                failures += 1
                continue
            if failures:
                note(_("the console is back"))
            self._heard = True
            return answer
