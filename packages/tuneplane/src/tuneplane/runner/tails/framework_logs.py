"""What the adapter's `log_hints` point at, as one source of records: the scalars go the way of the reporter's lines."""

from __future__ import annotations

from itertools import islice
from time import time
from typing import Iterable, Iterator, List, Optional, Sequence, Union

from tuneplane.adapters import LogHint
from tuneplane.report.lines import Columns
from tuneplane.runner.output import Chunk
from tuneplane.runner.report_lines import ReportLines
from tuneplane.runner.sources import Record
from tuneplane.runner.tails.console_lines import ConsoleLines
from tuneplane.runner.tails.json_lines import JsonLinesTail
from tuneplane.runner.tails.scalars import Scalars
from tuneplane.runner.tails.tensorboard import TensorboardTail

_AT_ONCE = 64  # steps in one record
_MAIN_RANK = 0


class FrameworkLogs:
    """Used on machine 0 only: frameworks log on one process of the job, and the out dir is the same on all machines.

    `feed` takes the trainer's output as it is recorded; `records` gives what it and the files hold that is new.
    """

    code = "framework-log"

    def __init__(self, hints: Sequence[LogHint], out_dir: str, lines: ReportLines) -> None:
        self._lines = lines
        self._bad_names = 0
        self._columns = Columns(self._count_name)
        self._tails: List[Union[JsonLinesTail, TensorboardTail]] = []
        self._consoles: List[ConsoleLines] = []
        self._printed: List[Scalars] = []
        for hint in hints:
            if hint.kind == "console":
                self._consoles.append(ConsoleLines(hint.format))
            elif hint.kind == "tensorboard":
                self._tails.append(TensorboardTail(_below(out_dir, hint.path)))
            else:
                self._tails.append(JsonLinesTail(out_dir, hint.path))

    def feed(self, chunks: Sequence[Chunk]) -> None:
        for console in self._consoles:
            for chunk in chunks:
                if chunk.fd != "runner":
                    self._printed.extend(console.feed(chunk.fd, chunk.data, chunk.time))

    def records(self, final: bool) -> Iterator[Optional[Record]]:
        now = time()
        if final:
            for console in self._consoles:
                self._printed.extend(console.finish(now))
        printed, self._printed = self._printed, []
        yield from self._records(printed)
        for tail in self._tails:
            try:
                yield from self._records(tail.scalars(now, final))
            except OSError:  # of a file system that stumbles; the tail goes on at the next look, and the others now
                continue

    def problem(self) -> str:
        bad = sum(tail.bad for tail in self._tails)
        if bad:
            return f"{bad} lines or records of the framework's log files cannot be read; they are left out"
        if any(tail.too_many for tail in self._tails):
            return "there are more log files of the framework than are followed; the newest are left out"
        if self._bad_names:
            return (
                "metric names of the framework's logs are empty, over 200 characters or unprintable; they are left out"
            )
        return ""

    def _records(self, scalars: Iterable[Optional[Scalars]]) -> Iterator[Optional[Record]]:
        found = iter(scalars)
        while True:
            some = list(islice(found, _AT_ONCE))
            if not some:
                return
            entries = [(one.values, one.step, one.time, one.epoch) for one in some if one is not None]
            for line in self._columns.lines(_MAIN_RANK, entries):
                yield from self._lines.records(line)
            yield None

    def _count_name(self, kind: str, text: str) -> None:
        self._bad_names += 1


def _below(out_dir: str, path: str) -> str:
    return out_dir if path in ("", ".") else f"{out_dir}/{path}"
