"""Learn that something about a job changed: the console's event stream, and a clock beside it.

The stream only wakes its reader early; what is true is always asked for again. So a stream that a proxy swallows, or that breaks,
costs a slower refresh and nothing else.
"""

from __future__ import annotations

import queue
import threading
from typing import Self

from tuneplane.client.errors import ConsoleError
from tuneplane.client.http import API, Console, transport_errors
from tuneplane.client.transport import make_client

POLL_SECONDS = 1.5  # between two looks when there is no stream
QUIET_SECONDS = 5.0  # between two looks when the stream is open and says nothing
STREAM_READ_SECONDS = 60.0
_SILENT = ("hello", "ping")  # they prove that the stream works, and say nothing about the job
RECONNECT_SECONDS = (1.0, 2.0, 5.0, 15.0)


class Changes:
    """Wakes its reader when the job's console says that something is new.

    with Changes(console, job_id) as changes:
        while not done():
            changes.wait()
    """

    def __init__(self, console: Console, job: str) -> None:
        self._console, self._job = console, job
        self._events: queue.Queue[str] = queue.Queue(maxsize=1000)
        self._stop = threading.Event()
        self._streaming = threading.Event()
        self._last_id = ""
        self._thread = threading.Thread(target=self._follow, name="tuneplane-changes", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        # The thread may sit in a read; it is a daemon and holds nothing that outlives the process.
        self._stop.set()

    @property
    def streaming(self) -> bool:
        """Whether the event stream is open."""
        return self._streaming.is_set()

    def wait(self, seconds: float | None = None) -> set[str]:
        """Names of what changed (`job`, `metrics`, `logs`, `samples`); empty when it was only time to look again.

        `seconds`: at most this long, default `QUIET_SECONDS` with a stream and `POLL_SECONDS` without.
        """
        limit = seconds if seconds is not None else QUIET_SECONDS if self.streaming else POLL_SECONDS
        names: set[str] = set()
        try:
            names.add(self._events.get(timeout=limit))
            while True:  # one look serves everything that piled up
                names.add(self._events.get_nowait())
        except queue.Empty:
            return names

    def _follow(self) -> None:
        failures = 0
        while not self._stop.is_set():
            try:
                if self._read_stream():
                    failures = 0
            except ConsoleError:
                pass  # the reader asks for the truth itself and meets the same error there, where it can be told
            self._streaming.clear()
            pause = RECONNECT_SECONDS[min(failures, len(RECONNECT_SECONDS) - 1)]
            failures += 1
            self._stop.wait(pause)

    def _read_stream(self) -> bool:
        """Read one stream to its end; whether anything came through it."""
        import httpx2

        heard = False
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}
        if self._last_id:
            headers["Last-Event-ID"] = self._last_id
        with (
            transport_errors(self._console.server),
            make_client(self._console.server, self._console.token, self._console.ca_file) as client,
            client.stream(
                "GET",
                f"{API}/jobs/{self._job}/stream",
                headers=headers,
                timeout=httpx2.Timeout(STREAM_READ_SECONDS, connect=5.0),
            ) as response,
        ):
            if response.status_code != 200:
                return False
            for event in httpx2.EventSource(response):
                self._streaming.set()
                heard = True
                self._last_id = event.id or self._last_id
                if event.event in _SILENT:
                    continue
                if self._stop.is_set():
                    break
                try:
                    self._events.put_nowait(event.event)
                except queue.Full:
                    pass  # the reader is far behind and will look anyway
        return heard
