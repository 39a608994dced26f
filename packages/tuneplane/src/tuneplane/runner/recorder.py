"""The thread between everything that happens and the spool: output, report files, events, in one place and one order."""

from __future__ import annotations

import base64
import sys
import threading
from collections import deque
from time import time
from typing import Any, Callable, Deque, Dict, Mapping, Optional

from tuneplane.contract.words import STREAM_EVENT, STREAM_LOG
from tuneplane.runner import limits
from tuneplane.runner.output import Chunk, LogChunks, OutputQueue
from tuneplane.runner.report_files import ReportFiles
from tuneplane.runner.report_lines import ReportLines
from tuneplane.runner.spool import Spool


class Recorder:
    """`say` and `event` may be called from any thread. `settle` returns when all that happened before is on disk."""

    def __init__(self, spool: Spool, output: OutputQueue, poke: Callable[[], None]) -> None:
        self.output = output
        self._spool = spool
        self._poke = poke
        self._events: Deque[Dict[str, Any]] = deque()
        self._chunks = LogChunks()
        self._files: Optional[ReportFiles] = None
        self._lines: Optional[ReportLines] = None
        self._bad_lines_said = False
        self._wanted = 0  # settle requests
        self._settled = 0
        self._condition = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="tuneplane-recorder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def follow_reports(self, files: ReportFiles, lines: ReportLines) -> None:
        self._lines, self._files = lines, files

    def event(self, name: str, data: Mapping[str, Any]) -> None:
        self._events.append({"time": time(), "event": name, "data": dict(data)})
        self.output.wake()

    def say(self, text: str) -> None:
        """The runner's own words: stderr, and the log stream as `runner`."""
        line = f"tuneplane: {text}\n"
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
            self._record_reports()
            while self._events:
                self._spool.append(STREAM_EVENT, self._spool.machine_rank, self._events.popleft())
            if self._spool.flush(final=everything):
                self._poke()
        except Exception as error:  # noqa: BLE001 - the trainer's pipes must be read on, whatever happens here
            to_stderr(f"tuneplane: recording failed and goes on: {type(error).__name__}: {error}\n")

    def _record_output(self, everything: bool) -> None:
        chunks, lost, size = self.output.take()
        if lost:
            self._spool.note_loss(STREAM_LOG, lost, size)
        for chunk in self._chunks.feed(chunks) + self._chunks.release(time(), everything):
            self._spool.append(STREAM_LOG, self._spool.machine_rank, log_body(chunk))

    def _record_reports(self) -> None:
        files, lines = self._files, self._lines
        if files is None or lines is None:
            return
        for line in files.lines():
            for record in lines.records(line):
                self._spool.append(record.stream, record.rank, record.body)
        bad = lines.bad + files.too_long
        if bad and not self._bad_lines_said:
            self._bad_lines_said = True
            self.warn(
                "report-line",
                f"{bad} entries of the report directory are not what tuneplane.report writes; they are left out",
            )


def log_body(chunk: Chunk) -> Dict[str, Any]:
    """Text when the bytes are UTF-8, else base64: the bytes themselves are kept either way."""
    body: Dict[str, Any] = {"time": round(chunk.time, 3), "fd": chunk.fd}
    try:
        body["data"] = chunk.data.decode("utf-8")
    except UnicodeDecodeError:
        body["data64"] = base64.b64encode(chunk.data).decode("ascii")
    return body


def to_stderr(line: str) -> None:
    try:
        sys.stderr.write(line)
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        return  # nobody listens
