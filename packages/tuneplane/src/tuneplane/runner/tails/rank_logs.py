"""Output that a launcher writes to a file per rank instead of its own: torchrun's `--redirects`, below `--log-dir`:
`<run>/attempt_<n>/<rank>/{stdout,stderr}.log` (torch 2.13, `torch/distributed/elastic/multiprocessing/api.py`, DefaultLogsSpecs).
"""

from __future__ import annotations

import glob
import os
from time import monotonic, time
from typing import Dict, Iterator, Optional

from tuneplane.contract.words import OUTSIDE_RANK, STREAM_LOG
from tuneplane.runner import limits
from tuneplane.runner.output import Chunk, LogChunks, log_body
from tuneplane.runner.redaction import RedactedChunks, Redactor
from tuneplane.runner.sources import Record
from tuneplane.runner.tails.growing import GrowingFile

_PATTERN = os.path.join("*", "attempt_*", "*", "std*.log")
_STREAMS = {"stdout.log": "stdout", "stderr.log": "stderr"}


class RankLogs:
    """A source of log records, each of its file's rank. For jobs on one machine: on several, the sequences of logs are the
    machines', and rank 1 of the first would share one with the second machine."""

    code = "rank-log"

    def __init__(self, directory: str, redactor: Redactor) -> None:
        self._pattern = os.path.join(glob.escape(directory), _PATTERN)
        self._redactor = redactor
        self._files: Dict[str, _RankLog] = {}
        self._looked_at: Optional[float] = None
        self._too_many = False

    def records(self, final: bool) -> Iterator[Optional[Record]]:
        if final or self._looked_at is None or monotonic() - self._looked_at >= limits.TAIL_LOOK_SECONDS:
            self._look()
        for log in list(self._files.values()):
            try:
                yield from log.records(final)
            except OSError:  # the other ranks' go on
                continue

    def problem(self) -> str:
        return "there are more log files of ranks than are followed; the newest are left out" if self._too_many else ""

    def _look(self) -> None:
        self._looked_at = monotonic()
        for path in sorted(glob.iglob(self._pattern)):
            fd, rank = _STREAMS.get(os.path.basename(path)), os.path.basename(os.path.dirname(path))
            if path in self._files or fd is None or not _is_rank(rank):
                continue
            if len(self._files) >= limits.TAIL_FILES:
                self._too_many = True
                return
            self._files[path] = _RankLog(path, int(rank), fd, self._redactor)


class _RankLog:
    def __init__(self, path: str, rank: int, fd: str, redactor: Redactor) -> None:
        self._file = GrowingFile(path)
        self._rank, self._fd = rank, fd
        self._redacted, self._chunks = RedactedChunks(redactor), LogChunks()

    def records(self, final: bool) -> Iterator[Record]:
        if self._file.open():
            yield from self._new_records(final)
            if self._file.replaced():
                yield from self._new_records(final=True)
                self._file.close()
                if final and self._file.open():
                    yield from self._new_records(final)
        now = time()
        rest = self._chunks.feed(self._redacted.release(now, final)) + self._chunks.release(now, final)
        yield from map(self._record, rest)

    def _new_records(self, final: bool) -> Iterator[Record]:
        self._file.begun_anew(final)
        while True:
            data = self._file.read(limits.READ_BYTES)
            if not data:
                return
            self._file.skip(len(data))
            yield from map(self._record, self._chunks.feed(self._redacted.feed([Chunk(self._fd, time(), data)])))

    def _record(self, chunk: Chunk) -> Record:
        return Record(STREAM_LOG, self._rank, log_body(chunk))


def _is_rank(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 7 and int(name) < OUTSIDE_RANK
