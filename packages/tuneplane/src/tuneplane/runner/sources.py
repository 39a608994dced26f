"""Where records come from besides the trainer's output: its report files, and the logs of its framework (tails)."""

from __future__ import annotations

from time import monotonic
from typing import Any, Dict, Iterator, NamedTuple, Optional, Protocol


class Record(NamedTuple):
    """`rank` is the trainer's for metrics and samples, the machine's for the rest."""

    stream: str
    rank: int
    body: Dict[str, Any]


class Source(Protocol):
    """`code` and `problem` make the one warning about what could not be read; an empty problem is none."""

    code: str

    def records(self, final: bool) -> Iterator[Optional[Record]]:
        """What is new; `final`: nothing comes after this, so that what waits for its end is taken as it is. None is given where
        something was read and holds no record: a place to stop for now."""
        ...

    def problem(self) -> str: ...


class Turns:
    """Reads a source a slice of time at a time: what one turn does not come to waits for the next, in order."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.unfinished = False
        self._running: Optional[Iterator[Optional[Record]]] = None

    def take(self, seconds: float) -> Iterator[Record]:
        """Records for about so long."""
        if self._running is None:
            self._running = self.source.records(False)
        end = monotonic() + seconds
        self.unfinished = False
        for record in self._running:
            if record is not None:
                yield record
            if monotonic() >= end:
                self.unfinished = True
                return
        self._running = None

    def take_all(self) -> Iterator[Record]:
        """Everything there is, and what waits for its end."""
        self.unfinished = False
        if self._running is not None:
            yield from (record for record in self._running if record is not None)
            self._running = None
        yield from (record for record in self.source.records(True) if record is not None)

    def give_up(self) -> None:
        """After an error: the source is asked anew next time."""
        self._running = None
