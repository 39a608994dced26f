"""Complete lines of a growing file, each once."""

from __future__ import annotations

from typing import Iterator

from tuneplane.runner import limits
from tuneplane.runner.tails.growing import GrowingFile


class LineTail:
    """`too_long` counts lines that were passed over because they do not end within the bound."""

    def __init__(self, path: str) -> None:
        self.too_long = 0
        self._file = GrowingFile(path)
        self._skipping = False
        self._rest = (
            b""  # a begun line of a file that was replaced, until it is known whether the new one goes on with it
        )

    def lines(self, final: bool = False) -> Iterator[bytes]:
        """Lines that are complete and were not given before. `final`, or when the file has been replaced: also a last line without
        its newline, since nothing follows it any more."""
        file = self._file
        if not file.open():
            return
        yield from self._new_lines(final)
        if file.replaced():
            yield from self._new_lines(final=True)  # what came between the reading and the look
            self._rest = b"" if self._skipping else file.read(limits.TAIL_READ_BYTES)
            file.close()
            if file.open():
                yield from self._new_lines(final)
            elif self._rest:
                rest, self._rest = self._rest, b""
                yield rest
        if final:
            yield from self._last_line()

    def _new_lines(self, final: bool) -> Iterator[bytes]:
        anew = self._file.begun_anew(final)
        if not self._file.readable:
            return
        rest, self._rest = self._rest, b""
        if rest and (anew or not self._file.read(len(rest)).startswith(rest)):
            yield rest
        if anew:
            self._skipping = False
        while True:
            data = self._file.read(limits.TAIL_READ_BYTES)
            end = data.rfind(b"\n") + 1
            if not end:
                if len(data) < limits.TAIL_READ_BYTES:
                    return  # half a line, or nothing
                self.too_long += not self._skipping
                self._skipping = True
                self._file.skip(len(data))
                continue
            self._file.skip(end)
            lines = data[: end - 1].split(b"\n")
            if self._skipping:
                self._skipping = False
                lines = lines[1:]
            yield from (line for line in lines if line)

    def _last_line(self) -> Iterator[bytes]:
        data = self._file.read(limits.TAIL_READ_BYTES)
        if data and not self._skipping:
            self._file.skip(len(data))
            yield data
