"""What a curve is drawn over besides its steps: seconds since the run began, and tokens that training has seen.

Tokens come from a metric of their own, which is joined by step: a point between two known counts lies on the straight line
between them; one outside of what is known has no place on that axis (None).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import isfinite

AXES = ("step", "time", "relative", "tokens", "epoch")
# Running counts of tokens, the first that a run has is taken: what TRL, then other trainers, report.
TOKEN_METRICS = ("train/num_tokens", "train/num_input_tokens_seen", "train/total_tokens")


def relative(times: Sequence[float], start: float) -> list[float | None]:
    """Seconds from `start` (Unix seconds) to each time; None for a time that is no number."""
    return [time - start if isfinite(time) else None for time in times]


def at_steps(steps: Sequence[int], known_steps: Sequence[int], known_values: Sequence[float]) -> list[float | None]:
    """The value at each of `steps`, from points sorted by step; None outside of them."""
    known = [(step, value) for step, value in zip(known_steps, known_values, strict=True) if isfinite(value)]
    places = [step for step, _value in known]
    return [_at(step, places, known) for step in steps]


def _at(step: int, places: list[int], known: list[tuple[int, float]]) -> float | None:
    right = bisect_left(places, step)
    if right == len(known):
        return None
    after_step, after = known[right]
    if after_step == step:
        return after
    if right == 0:
        return None
    before_step, before = known[right - 1]
    return before + (after - before) * (step - before_step) / (after_step - before_step)
