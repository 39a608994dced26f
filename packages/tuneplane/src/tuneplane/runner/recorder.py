"""The thread between everything that happens and the spool: output, report files, events, in one place and one order."""

from __future__ import annotations

import sys
import threading
from collections import deque
from time import time
from typing import Any, Callable, Deque, Dict, List, Mapping, Sequence

from tuneplane.contract.words import STREAM_EVENT, STREAM_LOG, STREAM_METRIC
from tuneplane.runner import limits
from tuneplane.runner.output import Chunk, LogChunks, OutputQueue, log_body
from tuneplane.runner.redaction import RedactedChunks, Redactor
from tuneplane.runner.sources import Record, Source, Turns
from tuneplane.runner.spool import Spool


class Recorder:
    """`say` and `event` may be called from any thread. `settle` returns when all that happened before is on disk.

    Everything passes `redactor` before it reaches the spool.
    """

    def __init__(self, spool: Spool, output: OutputQueue, poke: Callable[[], None], redactor: Redactor) -> None:
        self.output = output
        self._redactor = redactor
        self._redacted = RedactedChunks(redactor)
        self._spool = spool
        self._poke = poke
        self._events: Deque[Dict[str, Any]] = deque()
        self._chunks = LogChunks()
        self._sources: List[Turns] = []
        self._listeners: List[Callable[[Sequence[Chunk]], None]] = []
        self._said: Dict[str, None] = {}
        self._wanted = 0  # settle requests
        self._settled = 0
        self._condition = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="tuneplane-recorder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def follow(self, source: Source) -> None:
        """Take records from there too, from now on."""
        self._sources.append(Turns(source))

    def listen(self, listener: Callable[[Sequence[Chunk]], None]) -> None:
        """Hear the output as it is recorded."""
        self._listeners.append(listener)

    def event(self, name: str, data: Mapping[str, Any]) -> None:
        self._events.append({"time": time(), "event": name, "data": dict(data)})
        self.output.wake()

    def say(self, text: str) -> None:
        """The runner's own words: stderr, and the log stream as `runner`."""
        line = f"tuneplane: {self._redactor.text(text)}\n"
        to_stderr(line)
        self.output.put("runner", line.encode("utf-8", "replace"))

    def warn(self, code: str, text: str) -> None:
        self.say(text)
        self.event("warning", {"code": code, "text": text[:2000]})

    def settle(self, seconds: float) -> bool:
        with self._condition:
            self._wanted += 1
            wanted = self._wanted
        self.output.wake()
        with self._condition:
            return self._condition.wait_for(lambda: self._settled >= wanted, seconds)

    def close(self, seconds: float) -> bool:
        """Record what is left and close the spool; False when the disk does not let it finish in time."""
        self._closing = True
        self.output.wake()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            self.output.wait(limits.TICK_SECONDS)
            closing, wanted = self._closing, self._wanted
            if not closing and wanted == self._settled:
                self.output.gather(limits.COALESCE_SECONDS)  # many small writes of the trainer become one record
                closing, wanted = self._closing, self._wanted
            self._record_all(everything=closing or wanted > self._settled)
            with self._condition:
                self._settled = wanted
                self._condition.notify_all()
            if closing:
                break
        self._spool.close()
        self._poke()

    def _record_all(self, everything: bool) -> None:
        try:
            self._record_output(everything)
            for turns in self._sources:
                self._record_source(turns, everything)
            while self._events:
                self._append(Record(STREAM_EVENT, self._spool.machine_rank, self._events.popleft()))
            if self._spool.flush(final=everything):
                self._poke()
        except Exception as error:  # noqa: BLE001 - the trainer's pipes must be read on, whatever happens here
            to_stderr(f"tuneplane: recording failed and goes on: {type(error).__name__}: {error}\n")

    def _record_output(self, everything: bool) -> None:
        chunks, lost, size = self.output.take()
        if lost:
            self._spool.note_loss(STREAM_LOG, lost, size)
        now = time()
        redacted = self._redacted.feed(chunks) + self._redacted.release(now, everything)
        for chunk in self._chunks.feed(redacted) + self._chunks.release(now, everything):
            self._spool.append(STREAM_LOG, self._spool.machine_rank, log_body(chunk))
        for listener in self._listeners:
            listener(redacted)

    def _record_source(self, turns: Turns, everything: bool) -> None:
        """A source that fails is asked again next time and holds nothing else up."""
        try:
            for record in turns.take_all() if everything else turns.take(limits.SOURCE_SECONDS):
                self._append(record)
        except Exception as error:  # noqa: BLE001 - what a trainer writes may be anything
            turns.give_up()
            self._warn_once(
                f"{turns.source.code}-failed", f"reading failed and goes on: {type(error).__name__}: {error}"
            )
        problem = turns.source.problem()
        if problem:
            self._warn_once(turns.source.code, problem)
        if turns.unfinished:
            self.output.wake()

    def _append(self, record: Record) -> None:
        body = record.body
        if record.stream == STREAM_METRIC:
            body = {"series": {self._redactor.text(name): columns for name, columns in body["series"].items()}}
        elif record.stream != STREAM_LOG:  # logs are redacted over the borders of their reads
            body = self._redactor.json(body)
        self._spool.append(record.stream, record.rank, body)

    def _warn_once(self, code: str, text: str) -> None:
        if code not in self._said:
            self._said[code] = None
            self.warn(code, text)


def to_stderr(line: str) -> None:
    try:
        sys.stderr.write(line)
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        return  # nobody listens
