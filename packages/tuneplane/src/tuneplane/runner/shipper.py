"""Sends the spool to the console, in order, for as long as it takes. A console that is away costs nothing but delay."""

from __future__ import annotations

import threading
from time import monotonic, sleep
from typing import Callable, Optional

from tuneplane.contract.words import MAX_BATCH_RECORDS
from tuneplane.runner import frames, limits
from tuneplane.runner.backoff import Backoff
from tuneplane.runner.cursor import Batch, Cursor
from tuneplane.runner.wire import Answer, IngestClient

SENT, EMPTY, LATER, DENIED = "sent", "empty", "later", "denied"
_POKE_SECONDS = 0.7  # records of a moment travel together
_DRAIN_SLEEP_SECONDS = 1.0
_IDLE_SECONDS = 5.0  # also looks without being poked: a failed write may have been made up for

Say = Callable[[str], None]


class Shipper:
    """`step` does one request; `run` is the thread's loop around it. Not started twice."""

    def __init__(self, cursor: Cursor, client: IngestClient, attempt: int, say: Say) -> None:
        self.shipped = 0
        self.denied = False
        self.wait = 0.0  # seconds until the next try, after LATER
        self._told_to_wait = False  # by the console's Retry-After
        self._cursor = cursor
        self._client = client
        self._attempt = attempt
        self._say = say
        self._backoff = Backoff()
        self._records = MAX_BATCH_RECORDS
        self._bytes = limits.BATCH_RAW_BYTES
        self._away_since: Optional[float] = None
        self._wake = threading.Event()
        self._closing_at: Optional[float] = None
        self._closing = threading.Event()
        self._done = threading.Event()
        self._drained = False
        self._thread: Optional[threading.Thread] = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self.run, name="tuneplane-shipper", daemon=True)
        self._thread.start()

    def poke(self) -> None:
        """There is something new on disk."""
        self._wake.set()

    def set_token(self, token: str) -> None:
        """The console renewed the token."""
        self._client.set_token(token)
        self.denied = False
        self._wake.set()

    def drain(self, seconds: float, interrupted: Callable[[], bool]) -> bool:
        """Send the rest within `seconds`; True when the console has everything. Ends early when `interrupted()`."""
        self._closing_at = monotonic() + seconds
        self._closing.set()
        self._wake.set()
        while not self._done.wait(0.1):
            if monotonic() > self._closing_at or interrupted():
                self._closing_at = 0.0
                break
        return self._done.is_set() and self._drained

    def run(self) -> None:
        try:
            while not self._over():
                self._wake.clear()  # before looking: a poke that comes meanwhile is not lost
                outcome = self.step()
                if self._closing_at is not None and outcome in (EMPTY, DENIED):
                    self._drained = outcome == EMPTY
                    break
                self._rest(outcome)
        finally:
            self._finish()

    def step(self, timeout: float = limits.REQUEST_SECONDS) -> str:
        """One batch: SENT, EMPTY, LATER (`wait` says when) or DENIED. A request waits at most `timeout` seconds."""
        if self.denied:
            return DENIED
        batch = self._cursor.next_batch(self._records, self._bytes)
        if batch is None:
            return EMPTY
        timeout = min(timeout, self._timeout())
        return self._take(batch, self._client.send_batch([frame.payload for frame in batch.frames], timeout))

    def _take(self, batch: Batch, answer: Answer) -> str:
        if answer.kind == "ok":
            self._confirm(batch, answer)
            return SENT
        if answer.kind == "denied":
            self.denied = True
            self._say(f"{answer.detail}: this attempt may no longer report; what is left stays in the spool")
            return DENIED
        if answer.kind in ("smaller", "refused"):
            return self._shrink(batch, answer)
        self.wait = self._backoff.next(answer.retry_after)
        self._told_to_wait = answer.retry_after is not None
        if self._away_since is None:
            self._away_since = monotonic()
            self._say(f"{answer.detail}; the run goes on, its output is kept here and sent later")
        return LATER

    def _confirm(self, batch: Batch, answer: Answer) -> None:
        prefix = f"{self._attempt}/"
        ack = {
            key[len(prefix) :]: seq
            for key, seq in answer.body["ack"].items()
            if key.startswith(prefix) and isinstance(seq, int)
        }
        try:
            self._cursor.confirm(batch, ack)
        except OSError as error:
            self._say(f"the spool could not be trimmed: {error}")
        self.shipped += len(batch.frames)
        self._backoff.reset()
        self._records = min(MAX_BATCH_RECORDS, self._records * 2)
        self._bytes = min(limits.BATCH_RAW_BYTES, self._bytes * 2)
        if self._away_since is not None:
            self._say(f"the console is back after {monotonic() - self._away_since:.0f} s")
            self._away_since = None

    def _shrink(self, batch: Batch, answer: Answer) -> str:
        """Find the record that is refused by halving; then send an empty one with its identity instead."""
        if len(batch.frames) > 1:
            self._records = max(1, len(batch.frames) // 2)
            if answer.kind == "smaller":
                self._bytes = max(1, sum(len(frame.payload) for frame in batch.frames) // 2)
            self.wait, self._told_to_wait = 0.0, False
            return LATER
        frame = batch.frames[0]
        self._say(f"{answer.detail}; record {frame.key} {frame.seq} ({len(frame.payload)} bytes) is given up")
        second = self._client.send_batch([frames.blank(self._attempt, frame).payload], self._timeout())
        if second.kind in ("refused", "smaller"):
            second = Answer("ok", {"ack": {}})
        return self._take(batch, second)

    def _timeout(self) -> float:
        if self._closing_at is None:
            return limits.REQUEST_SECONDS
        return min(limits.REQUEST_SECONDS, max(0.5, self._closing_at - monotonic()))

    def _over(self) -> bool:
        return self._closing_at is not None and monotonic() > self._closing_at

    def _rest(self, outcome: str) -> None:
        if outcome == LATER:
            self._sleep(self.wait)
        elif outcome != SENT:
            self._wake.wait(_IDLE_SECONDS)
            self._sleep(_POKE_SECONDS)

    def _sleep(self, seconds: float) -> None:
        """Sleep until the drain begins; in the drain, back-off is short, and only what the console asked for is waited out."""
        if self._closing_at is None:
            self._closing.wait(seconds)
            return
        most = seconds if self._told_to_wait else min(seconds, _DRAIN_SLEEP_SECONDS)
        sleep(max(0.0, min(most, self._closing_at - monotonic())))

    def _finish(self) -> None:
        try:
            self._cursor.finish()
        except OSError as error:
            self._say(f"the spool's state could not be written: {error}")
        self._client.close()
        self._done.set()
