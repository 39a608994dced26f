"""What `tp job wait` says while it waits: a line for every state, and for everything new that explains it."""

from __future__ import annotations

import re
from collections.abc import Callable

from tuneplane.cli.job.show_text import moment, state_word
from tuneplane.cli.job.show_waiting import reasons
from tuneplane.cli.text import clean, note
from tuneplane.client.types import Job
from tuneplane.contract.words import TERMINAL_PHASES
from tuneplane.i18n import _

# Estimates move a little with every plan of the queue: a move by less than this alone is not worth a line.
ESTIMATE_MOVES = 600.0
_TIME = re.compile(r"(?:\d{4}-\d\d-\d\d )?\d\d:\d\d(?::\d\d)?")


def why_now(job: Job) -> str:
    """`running: the node does not answer`: the state and all that explains it, on one line."""
    said = _("; ").join(clean(text) for text in reasons(job))
    state = state_word(job)
    return _("{phase}: {why}").format(phase=state, why=said) if said else state


class Teller:
    """Is told the job at every look, and says it when something is new about it. What comes after its end is not its part."""

    def __init__(self, say: Callable[[str], None] = note) -> None:
        self._say = say
        self._said = ""
        self._estimate: float | None = None

    def __call__(self, job: Job) -> None:
        if job["phase"] in TERMINAL_PHASES:
            return
        line = why_now(job)
        estimate = moment((job.get("waiting") or {}).get("estimate"))
        at = estimate.timestamp() if estimate else None
        if _TIME.sub("", line) == self._said and not _moved(self._estimate, at):
            return
        self._said, self._estimate = _TIME.sub("", line), at
        self._say(_("{run} {phase}").format(run=job["id"], phase=line))


def _moved(before: float | None, now: float | None) -> bool:
    if before is None or now is None:
        return before is not now
    return abs(now - before) >= ESTIMATE_MOVES
