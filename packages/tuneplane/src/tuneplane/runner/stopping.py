"""Being told to stop: by a signal or by the console. Asked once, remembered for good."""

from __future__ import annotations

import os
import select
import signal
import threading
from typing import Any, Optional

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopRequest:
    """`fd` becomes readable when something happened: a signal, a child's end, a cancel."""

    def __init__(self) -> None:
        self.cause: Optional[str] = None  # name of the signal, or `cancel`
        self.times = 0
        self._lock = threading.Lock()
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_fd, False)

    def listen(self) -> None:
        """Take over the signals; main thread only. SIGCHLD is taken only so that the main loop wakes up."""
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        for number in STOP_SIGNALS:
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def cancel(self) -> None:
        """The console wants the run to end. Any thread; saying it again changes nothing."""
        with self._lock:
            if self.cause is not None:
                return
            self.cause = "cancel"
        self._wake()

    def passed_on(self) -> None:
        """Another runner of this attempt was told to stop in our place."""
        if self.cause is None:
            self.cause = signal.Signals(signal.SIGTERM).name

    def wait(self, seconds: float) -> None:
        """Until something happens, at most so long."""
        select.select([self.fd], [], [], seconds)
        try:
            os.read(self.fd, 4096)
        except BlockingIOError:
            return

    def _on_signal(self, number: int, frame: Any) -> None:
        # Runs on the main thread between two bytecodes: no lock here, cancel() may hold it on another thread only.
        self.times += 1
        if self.cause is None:
            self.cause = signal.Signals(number).name

    def _wake(self) -> None:
        try:
            os.write(self._write_fd, b"\0")
        except (BlockingIOError, OSError):
            return  # full: it wakes anyway
