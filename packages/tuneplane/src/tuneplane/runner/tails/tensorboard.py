"""Scalars of a folder of TensorBoard event files, whatever folders lie in it."""

from __future__ import annotations

import os
import re
from time import monotonic
from typing import Dict, Iterator, List, Optional, Tuple

from tuneplane.runner import limits
from tuneplane.runner.tails.event_protobuf import BadEventError, read_event
from tuneplane.runner.tails.scalars import EXACT_INT, Scalars
from tuneplane.runner.tails.tfrecords import RecordTail

# `events.out.tfevents.<second>.<host>…`: tensorboard's and tensorboardX's `event_file_writer.py`.
_NAME = re.compile(r".*tfevents\.(\d{10})\.")


class TensorboardTail:
    """The folder of the oldest event file is the run: its tags are the names. What writers put into other folders (`add_scalars`,
    `add_hparams`, TensorFlow's `train` and `validation`) has the folder in front, because there the same tags mean something else.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._files: Dict[str, RecordTail] = {}
        self._main: Optional[str] = None
        self._looked_at: Optional[float] = None
        self._bad_events = 0
        self.too_many = False

    @property
    def bad(self) -> int:
        return self._bad_events + sum(tail.damaged for tail in self._files.values())

    def scalars(self, now: float, final: bool = False) -> Iterator[Optional[Scalars]]:
        """None for a record that holds no scalar."""
        if final or self._looked_at is None or monotonic() - self._looked_at >= limits.TAIL_LOOK_SECONDS:
            self._look()
        for path, tail in list(self._files.items()):
            prefix = self._prefix(os.path.dirname(path))
            for record in tail.records(final):
                yield self._scalars_of(record, prefix, now)

    def _scalars_of(self, record: bytes, prefix: str, now: float) -> Optional[Scalars]:
        try:
            event = read_event(record)
        except BadEventError:
            self._bad_events += 1
            return None
        if not event.values:
            return None
        if not -EXACT_INT <= event.step <= EXACT_INT:
            self._bad_events += 1
            return None
        time = event.time if 0 < event.time < limits.TIME_MOST else now
        return Scalars(event.step, time, None, {prefix + tag: value for tag, value in event.values.items()})

    def _look(self) -> None:
        """Find new files; in the order in which they were begun."""
        self._looked_at = monotonic()
        for _, _, path in sorted(self._event_files()):
            if path in self._files:
                continue
            if len(self._files) >= limits.TAIL_FILES:
                self.too_many = True
                return
            if self._main is None:
                self._main = os.path.dirname(path)
            self._files[path] = RecordTail(os.path.join(self._directory, path), _may_hold_scalars)

    def _event_files(self) -> Iterator[Tuple[int, int, str]]:
        """(second of its begin, depth, path below the directory) of each. Looks at a bounded number of names."""
        pending: List[Tuple[int, str]] = [(0, "")]
        seen = 0
        while pending:
            depth, directory = pending.pop()
            try:
                entries = list(os.scandir(os.path.join(self._directory, directory)))
            except OSError:
                continue
            for entry in entries:
                seen += 1
                if seen > limits.TAIL_ENTRIES:
                    self.too_many = True
                    return
                path = os.path.join(directory, entry.name)
                match = _NAME.match(entry.name)
                if match is not None:
                    yield int(match.group(1)), depth, path
                elif depth < limits.TAIL_DEPTH and entry.is_dir(follow_symlinks=False):
                    pending.append((depth + 1, path))

    def _prefix(self, directory: str) -> str:
        if directory == self._main:
            return ""
        name = os.path.relpath(directory or ".", self._main) if directory.startswith(f"{self._main}/") else directory
        return f"{name}/".replace(os.sep, "/") if name else "other/"


def _may_hold_scalars(record: bytes) -> bool:
    try:
        return bool(read_event(record).values)
    except BadEventError:
        return True
