"""Scalars of files with one JSON object a line, by a pattern below the out dir (`metrics.jsonl`, `*/logging.jsonl`)."""

from __future__ import annotations

import glob
import os
from time import monotonic
from typing import Dict, Iterator, Optional

from tuneplane.runner import limits
from tuneplane.runner.tails.lines import LineTail
from tuneplane.runner.tails.scalars import NotScalarsError, Scalars, read_json_line


class JsonLinesTail:
    def __init__(self, directory: str, pattern: str) -> None:
        self._pattern = os.path.join(glob.escape(directory), pattern)
        self._files: Dict[str, LineTail] = {}
        self._looked_at: Optional[float] = None
        self._bad_lines = 0
        self.too_many = False

    @property
    def bad(self) -> int:
        return self._bad_lines + sum(tail.too_long for tail in self._files.values())

    def scalars(self, now: float, final: bool = False) -> Iterator[Optional[Scalars]]:
        """None for a line that holds no point."""
        if final or self._looked_at is None or monotonic() - self._looked_at >= limits.TAIL_LOOK_SECONDS:
            self._look()
        for tail in list(self._files.values()):
            for line in tail.lines(final):
                try:
                    found = read_json_line(line, now)
                except NotScalarsError:
                    self._bad_lines += 1
                    found = None
                yield found if found is not None and found.values else None

    def _look(self) -> None:
        self._looked_at = monotonic()
        for path in sorted(glob.iglob(self._pattern)):
            if path not in self._files:
                if len(self._files) >= limits.TAIL_FILES:
                    self.too_many = True
                    return
                self._files[path] = LineTail(path)
