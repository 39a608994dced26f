"""What is asked at the same time is answered together, and nobody pays for another's question."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tuneplane_server.grouping import Grouped


class Work:
    """Doubles numbers; holds each group until it is let go."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def __call__(self, numbers: Sequence[int]) -> Sequence[int]:
        self.groups.append(list(numbers))
        self.begun.set()
        await self.go.wait()
        if -1 in numbers:
            raise ValueError("-1")
        return [number * 2 for number in numbers]


async def test_what_comes_while_a_group_is_at_work_is_the_next_group() -> None:
    work = Work()
    grouped = Grouped(work, most=3)
    first = asyncio.create_task(grouped.ask(1))
    await work.begun.wait()
    rest = [asyncio.create_task(grouped.ask(number)) for number in (2, 3, 4, 5)]
    await asyncio.sleep(0)  # they are asked
    work.go.set()
    assert await asyncio.gather(first, *rest) == [2, 4, 6, 8, 10]
    assert work.groups == [[1], [2, 3, 4], [5]]
    assert await grouped.ask(6) == 12


async def test_a_failure_is_heard_by_those_who_share_it_and_by_nobody_else() -> None:
    work = Work()
    grouped = Grouped(work)
    bad = asyncio.create_task(grouped.ask(-1))
    await work.begun.wait()
    good = asyncio.create_task(grouped.ask(1))
    await asyncio.sleep(0)
    work.go.set()
    with pytest.raises(ValueError, match="-1"):
        await bad
    assert await good == 2


async def test_whoever_is_cancelled_cancels_nobody_else() -> None:
    work = Work()
    grouped = Grouped(work)
    first = asyncio.create_task(grouped.ask(1))
    await work.begun.wait()
    gone, other = asyncio.create_task(grouped.ask(2)), asyncio.create_task(grouped.ask(3))
    await asyncio.sleep(0)
    gone.cancel()
    first.cancel()
    await asyncio.wait({gone, first})
    work.go.set()
    assert await other == 6
    assert work.groups == [[1], [3]]


async def test_with_a_rest_what_comes_soon_after_a_group_waits_for_others_and_the_first_does_not() -> None:
    work = Work()
    work.go.set()
    grouped = Grouped(work, rest=0.05)
    assert await grouped.ask(1) == 2
    second = asyncio.create_task(grouped.ask(2))
    await asyncio.sleep(0)
    assert await asyncio.gather(second, grouped.ask(3)) == [4, 6]
    assert work.groups == [[1], [2, 3]]
