"""Follows the files that reporters write (`<rank>-<pid>.<n>.ndjson`) and removes those it has read."""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, List, Optional, Tuple

from tuneplane.runner import limits
from tuneplane.runner.files import remove
from tuneplane.runner.report_lines import ReportLines
from tuneplane.runner.sources import Record

_NAME = re.compile(r"(?P<writer>[0-9]+-[0-9]+)\.(?P<number>[0-9]+)\.ndjson\Z")


class Reports:
    """What `tuneplane.report` says in the trainer's processes, as a source of records."""

    code = "report-line"

    def __init__(self, files: ReportFiles, lines: ReportLines) -> None:
        self._files, self._lines = files, lines

    def records(self, final: bool) -> Iterator[Optional[Record]]:
        for line in self._files.lines():
            yield from self._lines.records(line) or (None,)

    def problem(self) -> str:
        bad = self._lines.bad + self._files.too_long
        if not bad:
            return ""
        return f"{bad} entries of the report directory are not what tuneplane.report writes; they are left out"


class ReportFiles:
    """Only complete lines count. A file is done when the same writer has a newer one: it is read to its end and removed."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._offsets: Dict[str, int] = {}
        self._skipping: Dict[str, None] = {}
        self._done: List[str] = []
        self.too_long = 0

    def lines(self) -> Iterator[bytes]:
        """Every line that is complete now and was not given before."""
        self._remove_done()
        for name, has_newer in self._files():
            path = os.path.join(self._directory, name)
            yield from self._read(path)
            if has_newer:
                # The writer moves on only after its last write here, so what was just read is all there is. It is removed
                # at the next look: by then the records are in the spool.
                self._done.append(path)

    def _remove_done(self) -> None:
        for path in self._done:
            remove(path)
            self._offsets.pop(path, None)
            self._skipping.pop(path, None)
        self._done = []

    def _files(self) -> List[Tuple[str, bool]]:
        try:
            names = os.listdir(self._directory)
        except OSError:
            return []  # a trainer that removes its report directory has nothing more to say
        matches = [match for match in map(_NAME.match, names) if match]
        newest: Dict[str, int] = {}
        for match in matches:
            newest[match["writer"]] = max(newest.get(match["writer"], 0), int(match["number"]))
        matches.sort(key=lambda match: (match["writer"], int(match["number"])))
        return [(match.group(), int(match["number"]) < newest[match["writer"]]) for match in matches]

    def _read(self, path: str) -> Iterator[bytes]:
        offset = self._offsets.get(path, 0)
        while True:
            data = self._load(path, offset, limits.REPORT_READ_BYTES)
            if not data:
                return
            end = data.rfind(b"\n") + 1
            if not end and len(data) == limits.REPORT_READ_BYTES:
                data = self._load(path, offset, limits.REPORT_LINE_BYTES)
                end = data.rfind(b"\n") + 1
                if not end and len(data) == limits.REPORT_LINE_BYTES:
                    self._skipping[path] = None
                    offset = self._offsets[path] = offset + len(data)
                    continue
            if not end:
                return
            lines = data[: end - 1].split(b"\n")
            if path in self._skipping:
                del self._skipping[path]
                self.too_long += 1
                lines = lines[1:]
            offset = self._offsets[path] = offset + end
            yield from (line for line in lines if line)

    def _load(self, path: str, offset: int, size: int) -> bytes:
        try:
            with open(path, "rb") as file:
                file.seek(offset)
                return file.read(size)
        except OSError:
            return b""
