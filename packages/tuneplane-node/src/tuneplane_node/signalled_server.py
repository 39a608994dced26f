"""uvicorn under our signals, for the daemon of a node and for the console."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import override

import uvicorn


class SignalledServer(uvicorn.Server):
    """Says when it accepts requests, and ends by a signal as a service should: with exit code 0. `ending` is called then."""

    def __init__(self, config: uvicorn.Config, ending: Callable[[], None] = lambda: None) -> None:
        super().__init__(config)
        self.accepting = asyncio.Event()
        self._ending = ending

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._ending()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.accepting.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn's own raises the signal once more at the end, which would end the process before it has closed."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
