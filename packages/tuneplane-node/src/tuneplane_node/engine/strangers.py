"""Jobs on this machine that carry our labels and are nobody's here: those of a node whose state directory was lost.

A machine that lost it joins anew, under another id. What its earlier self had launched runs on and holds its cards, and no look of the
new one finds it: looks go by the id. So they are looked for by themselves, told to the console, and ended when that says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tuneplane_node.engine.requests import LABEL_ATTEMPT, LABEL_INSTANCE, LABEL_JOB, RuntimeHandle

VISIBLE_SIMULATED_GPUS = "TUNEPLANE_VISIBLE_SIMULATED_GPUS"


@dataclass(frozen=True)
class Stranger:
    """`instance`: the id it was launched under. `gpus`: the cards it holds, None when that cannot be told."""

    handle: RuntimeHandle
    job: str
    attempt: str
    instance: str
    running: bool
    gpus: tuple[int, ...] | None = ()

    def holds(self, index: int) -> bool:
        """Whether it has the card, or may have it."""
        return self.running and (self.gpus is None or index in self.gpus)


def stranger_of(
    handle: RuntimeHandle, labels: Mapping[str, str], *, running: bool, gpus: tuple[int, ...] | None
) -> Stranger | None:
    """None for what does not say whose job it is."""
    job, attempt = labels.get(LABEL_JOB, ""), labels.get(LABEL_ATTEMPT, "")
    return Stranger(handle, job, attempt, labels.get(LABEL_INSTANCE, ""), running, gpus) if job and attempt else None


def cards_in(env: Mapping[str, str], *variables: str) -> tuple[int, ...] | None:
    """The cards that the first of these variables names which is there: none for an empty one, None for anything but indexes."""
    value = next((env[name] for name in variables if name in env), None)
    if value is None:
        return None
    if value in ("", "void", "none"):
        return ()
    parts = value.split(",")
    return tuple(map(int, parts)) if all(part.isascii() and part.isdecimal() for part in parts) else None
