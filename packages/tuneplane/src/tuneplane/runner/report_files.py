"""Follows the files that reporters write (`<rank>-<pid>.<n>.ndjson`) and removes those it has read."""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, List, Tuple

from tuneplane.runner import limits

_NAME = re.compile(r"(?P<writer>[0-9]+-[0-9]+)\.(?P<number>[0-9]+)\.ndjson\Z")


class ReportFiles:
    """Only complete lines count. A file is done when the same writer has a newer one: it is read to its end and removed."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._offsets: Dict[str, int] = {}
        self._skipping: Dict[str, None] = {}
        self.too_long = 0

    def lines(self) -> Iterator[bytes]:
        """Every line that is complete now and was not given before."""
        for name, has_newer in self._files():
            path = os.path.join(self._directory, name)
            yield from self._read(path)
            if has_newer:
                # The writer moves on only after its last write here, so what was just read is all there is.
                os.unlink(path)
                self._offsets.pop(path, None)
                self._skipping.pop(path, None)

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
