"""The thread that turns queued calls into lines of the report file. One per process; started by the first call."""

from __future__ import annotations

import sys
import threading
from collections import deque
from typing import Any, Deque, Iterator, List, Optional, Set

from tuneplane.report.files import ReportFile
from tuneplane.report.lines import Columns, Entry

# Calls waiting for the writer. At full speed (2 µs a call) this is a burst of half a second, about 150 MB at 8 scalars.
MAX_QUEUED = 262_144
BATCH_SECONDS = 0.1
_DRAIN = 4096


class Recorder:
    """Holds the queue of one process. `queue` is appended to by the caller's thread without a lock (deque is atomic)."""

    def __init__(self, directory: str, rank: int) -> None:
        self.directory = directory
        self.rank = rank
        self.queue: Deque[Entry] = deque()
        self.lines: Deque[bytes] = deque()  # samples and events, already encoded
        self.wake = threading.Event()
        self.dropped = 0
        self.lost_lines = 0
        self._columns = Columns(self.warn)
        self._file: Optional[ReportFile] = None
        self._lock = threading.Lock()  # one writer at a time: the thread or finish()
        self._start_lock = threading.Lock()
        self._thread: Optional[threading.Thread] = None
        self._stop = threading.Event()
        self._hurry = threading.Event()  # somebody waits for the file: no batching now
        self._waiters: Deque[threading.Event] = deque()
        self._said: Set[str] = set()

    def start(self) -> None:
        """Make sure that the writer thread runs; cheap when it does."""
        with self._start_lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._stop = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(self._stop,), name="tuneplane-report", daemon=True)
            self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Write what is queued and end the thread; True when everything was written within `timeout` seconds."""
        with self._start_lock:
            thread, self._thread = self._thread, None
            self._stop.set()
            self._hurry.set()
            self.wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
            if thread.is_alive():
                return False
        self._drain()
        return not self.queue and not self.lines

    def flush(self, timeout: float) -> bool:
        """Have what is queued written now; True when it was within `timeout` seconds."""
        written = threading.Event()
        self._waiters.append(written)
        self.start()
        self._hurry.set()
        self.wake.set()
        return written.wait(timeout)

    def latest_step(self) -> int:
        """The step of the newest call of log(), 0 before the first."""
        try:
            step = self.queue[-1][1]
        except IndexError:
            step = None
        return max(0, self._columns.last_step) if step is None else step

    def warn(self, kind: str, text: str) -> None:
        """One line on stderr per kind of problem."""
        if kind not in self._said:
            self._said.add(kind)
            say(text)

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.wake.wait()
            # Waiting a little lets many calls share one line; nothing wakes this thread while nothing is logged.
            self._hurry.wait(BATCH_SECONDS)
            self.wake.clear()
            self._hurry.clear()
            waiting = len(self._waiters)  # who comes later has set `wake` again
            self._drain()
            for _ in range(waiting):
                self._waiters.popleft().set()

    def _drain(self) -> None:
        with self._lock:
            try:
                while self.queue or self.lines:
                    for line in self._next_lines():
                        self._write(line)
            except Exception as error:  # noqa: BLE001 - reporting must never end a training run
                self.warn("writer", f"reporting failed and goes on with the next call: {type(error).__name__}: {error}")
            if self.dropped:
                self.warn(
                    "dropped", f"more than {MAX_QUEUED} calls of log() were waiting; the newest were not recorded"
                )

    def _next_lines(self) -> Iterator[bytes]:
        entries: List[Entry] = []
        while self.queue and len(entries) < _DRAIN:
            entries.append(self.queue.popleft())
        yield from self._columns.lines(self.rank, entries)
        while self.lines:
            yield self.lines.popleft()

    def _write(self, line: bytes) -> None:
        if self._file is None:
            self._file = ReportFile(self.directory, self.rank)
        if not self._file.write(line):
            self.lost_lines += 1
            self.warn("disk", f"the report directory {self.directory} takes no more; metrics are lost until it does")


def say(text: Any) -> None:
    """One line on stderr, or nowhere when there is none."""
    try:
        sys.stderr.write(f"tuneplane.report: {text}\n")
    except (AttributeError, OSError, ValueError):
        return  # stderr is closed: there is nobody to tell
