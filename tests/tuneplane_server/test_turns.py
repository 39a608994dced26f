"""Long work on the event loop gives way: counted in steps, with a clock that each step moves."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from tuneplane_server import turns
from tuneplane_server.turns import SLICE_SECONDS, Callers, in_slices
from tuneplane_server.web.middleware import CallersMiddleware

STEP_SECONDS = 0.3 * SLICE_SECONDS  # so every fourth is over it


class _Work:
    """`steps` pieces, four of which are more than a slice by the clock that the slices are measured with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
        self.steps, self.done, self.clock = steps, 0, 0.0
        monkeypatch.setattr(turns, "perf_counter", lambda: self.clock)

    def __call__(self) -> Generator[None, None, str]:
        for _step in range(self.steps):
            self.done += 1
            self.clock += STEP_SECONDS
            yield
        return "made"


async def test_others_have_their_turn_after_each_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    work = _Work(monkeypatch, 400)
    making = asyncio.create_task(in_slices(work(), Callers()))
    seen = [0]
    while not making.done():
        await asyncio.sleep(0)
        seen.append(work.done)
    assert await making == "made"
    assert max(later - earlier for earlier, later in pairwise(seen)) <= 4
    assert len(seen) > 100


@pytest.mark.parametrize(("waiting", "rest"), [(0, 0), (2, SLICE_SECONDS)])
async def test_who_waits_for_an_answer_gets_as_much_of_the_loop_as_the_work(
    monkeypatch: pytest.MonkeyPatch, waiting: int, rest: float
) -> None:
    rests: list[float] = []

    async def note(seconds: float) -> None:
        rests.append(seconds)

    work = _Work(monkeypatch, 50)
    monkeypatch.setattr(turns, "asyncio", SimpleNamespace(sleep=note))
    assert await in_slices(work(), Callers(waiting)) == "made"
    assert rests == [rest] * 12


async def test_a_request_waits_until_its_answer_begins_or_fails() -> None:
    callers, begun, over = Callers(), asyncio.Event(), asyncio.Event()
    counts: list[int] = []

    async def stream(scope: Any, _receive: Any, send: Any) -> None:
        counts.append(callers.waiting)
        if scope["path"] == "/broken":
            raise RuntimeError("no")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        begun.set()
        await over.wait()
        await send({"type": "http.response.body", "body": b""})

    async def send(_message: Any) -> None:
        counts.append(callers.waiting)

    app: Any = CallersMiddleware(stream, callers=callers)
    asking = asyncio.create_task(app({"type": "http", "path": "/"}, None, send))
    async with asyncio.timeout(60):
        await begun.wait()
        assert callers.waiting == 0
        over.set()
        await asking
    with pytest.raises(RuntimeError, match="no"):
        await app({"type": "http", "path": "/broken"}, None, send)
    assert (counts, callers.waiting) == ([1, 0, 0, 1], 0)
