"""Questions that are asked at about the same time, answered together: while one group is at work, the next one gathers.

A console hears hundreds of heartbeats a second. A statement, and where it writes a commit, for each would be all that the database
does; together they are one, and alone none waits for another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple


class _Asked[Q, A](NamedTuple):
    question: Q
    answer: asyncio.Future[A]


class Grouped[Q, A]:
    """`work` gives the answers in the order of the questions, at most `most` of them. What it raises, all who share it hear:
    what can be wrong with one question alone is an answer of its own. `rest`: seconds that the next group gathers for, at least, after
    one was answered. To be used on the event loop's thread.
    """

    def __init__(
        self, work: Callable[[Sequence[Q]], Awaitable[Sequence[A]]], *, most: int = 200, rest: float = 0.0
    ) -> None:
        self._work, self._most, self._rest = work, most, rest
        self._asked: deque[_Asked[Q, A]] = deque()
        self._working: asyncio.Task[None] | None = None

    async def ask(self, question: Q) -> A:
        """Whoever is cancelled asks no more, and cancels nobody else."""
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(question, answer))
        if self._working is None:
            self._working = asyncio.create_task(self._work_off(), name="grouped")
        return await answer

    async def _work_off(self) -> None:
        try:
            while self._asked:
                await self._answer([self._asked.popleft() for _one in range(min(self._most, len(self._asked)))])
                if self._rest:
                    await asyncio.sleep(self._rest)
        finally:  # cancelled: the loop ends
            self._working = None

    async def _answer(self, group: list[_Asked[Q, A]]) -> None:
        wanted = [one for one in group if not one.answer.done()]
        try:
            answers = await self._work([one.question for one in wanted]) if wanted else []
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for it
            for one in wanted:
                if not one.answer.done():
                    one.answer.set_exception(error)
            return
        except BaseException:
            for one in wanted:
                one.answer.cancel()
            raise
        for one, answer in zip(wanted, answers, strict=True):
            if not one.answer.done():
                one.answer.set_result(answer)
