"""Long work on the event loop, done in slices: others get their turn in between, and who waits for an answer gets more of it.

A thread would not spare them: it holds the interpreter's lock for as long as they wait for it, at every one of their steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from time import perf_counter

# How long a slice keeps the loop to itself.
SLICE_SECONDS = 0.003


@dataclass
class Callers:
    """How many requests are here whose answer has not begun."""

    waiting: int = 0


async def in_slices[T](steps: Generator[None, None, T], callers: Callers) -> T:
    """What the steps make in the end. While somebody waits for an answer, the loop is theirs for as long as it was ours: one turn
    after each slice would not do, since an answer takes dozens of them.
    """
    begun = perf_counter()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: T = end.value
            return made
        if perf_counter() - begun > SLICE_SECONDS:
            await asyncio.sleep(SLICE_SECONDS if callers.waiting else 0)
            begun = perf_counter()
