"""File work on a mount whose server may be gone.

Whoever touches such a mount hangs in the kernel, where no signal reaches: in asyncio's own pool of threads a few of them would
stop the whole daemon, and its end. Here each piece of work has a daemon thread of its own, the caller waits for it only so long,
and when too many hang the next one is refused at once.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress

MAX_HANGING = 8


class StorageHangsError(Exception):
    """No answer from the file system in time, or so many earlier calls still hang that none is begun."""


class FileLane:
    """`seconds`: how long a caller waits. `most`: how many threads may be at work, the hanging ones included."""

    def __init__(self, seconds: float, most: int = MAX_HANGING) -> None:
        self._seconds, self._most = seconds, most
        self._busy = 0
        self._lock = threading.Lock()

    @property
    def busy(self) -> int:
        """Threads at work or hanging now."""
        return self._busy

    async def run[**P, T](self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `work` returns or raises. Raises StorageHangsError."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()  # the language of the caller goes with it

        def tell(value: T | None, problem: BaseException | None) -> None:
            if answer.done():  # given up meanwhile
                return
            if problem is not None:
                answer.set_exception(problem)
            else:
                answer.set_result(value)  # ty: ignore[invalid-argument-type]

        def at_work() -> None:
            value: T | None = None
            failure: BaseException | None = None
            try:
                value = context.run(work, *args, **kwargs)
            except BaseException as problem:  # noqa: BLE001 - it is raised where it is awaited
                failure = problem
            self._leave()
            with suppress(RuntimeError):  # the loop ended while this hung
                loop.call_soon_threadsafe(tell, value, failure)

        self._enter()
        threading.Thread(target=at_work, name="tuneplane-files", daemon=True).start()
        try:
            async with asyncio.timeout(self._seconds):
                return await answer
        except TimeoutError:
            if answer.done() and not answer.cancelled():
                raise  # the work's own
            raise StorageHangsError(f"no answer within {self._seconds:.0f} s") from None

    def _enter(self) -> None:
        with self._lock:
            if self._busy >= self._most:
                raise StorageHangsError(f"{self._busy} earlier looks at it still hang")
            self._busy += 1

    def _leave(self) -> None:
        with self._lock:
            self._busy -= 1
