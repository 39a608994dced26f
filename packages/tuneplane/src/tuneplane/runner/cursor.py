"""Reading side of the spool: batches in order, acknowledgements, removal of what the console has."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from tuneplane.contract.words import MAX_BATCH_RECORDS
from tuneplane.runner import frames, limits
from tuneplane.runner.frames import Frame
from tuneplane.runner.segments import list_segments, read_ack, remove_segment, segment_path, write_ack

_READ_BYTES = 2 * limits.BATCH_RAW_BYTES


class Batch(NamedTuple):
    """`frames` in spool order; `after` is the position behind the last of them: (segment, offset)."""

    frames: List[Frame]
    after: Tuple[int, int]


class Cursor:
    """Position in one machine's spool directory. Used by one thread."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.ack = read_ack(directory)
        self.damaged = 0
        self._position = (0, 0)
        self._ready: List[Tuple[Frame, Tuple[int, int]]] = []
        self._read_to = (0, 0)
        self._filled: Set[Tuple[str, int]] = set()

    def next_batch(
        self, max_records: int = MAX_BATCH_RECORDS, max_bytes: int = limits.BATCH_RAW_BYTES
    ) -> Optional[Batch]:
        """The next records that the console has not got, at least one however large; None when there is nothing new.

        Asking again without `confirm` gives the same records.
        """
        if not self._ready:
            self._read()
        chosen: List[Frame] = []
        size = 0
        for frame, _ in self._ready[:max_records]:
            if chosen and size + len(frame.payload) > max_bytes:
                break
            chosen.append(frame)
            size += len(frame.payload) + 1
        return Batch(chosen, self._ready[len(chosen) - 1][1]) if chosen else None

    def confirm(self, batch: Batch, server_ack: Dict[str, int]) -> None:
        """The console stored `batch`. `server_ack`: `<rank>/<stream>` -> highest seq without a hole before it.

        When the console lacks earlier records (its database was put back from a backup), what is still on disk is sent again,
        once for each such hole.
        """
        self._position = batch.after
        del self._ready[: len(batch.frames)]
        hole = False
        for frame in batch.frames:
            self.ack[frame.key] = max(self.ack.get(frame.key, 0), frame.seq)
        for key in {frame.key for frame in batch.frames}:
            known = server_ack.get(key, self.ack[key])
            if known < self.ack[key] and (key, known) not in self._filled:
                self._filled.add((key, known))
                if self._still_has(key, known + 1):
                    self.ack[key] = known
                    hole = True
        if hole:
            self._position, self._read_to, self._ready = (0, 0), (0, 0), []
        else:
            self._remove_before(batch.after[0])

    def pending(self) -> int:
        """Records on disk that the console has not got. Reads the rest of the spool."""
        count = len(self._ready)
        number, offset = self._read_to
        for segment in list_segments(self.directory):
            if segment < number:
                continue
            data = self._load(segment, offset if segment == number else 0, -1)
            count += sum(1 for frame, _ in frames.decode(data)[0] if frame.seq > self.ack.get(frame.key, 0))
        return count

    def finish(self) -> None:
        """Remember what was acknowledged; when that is everything, remove the last segments too."""
        if self.next_batch() is None:
            self._remove_before(1 << 62)
        elif self.ack != read_ack(self.directory):
            write_ack(self.directory, self.ack)

    def _read(self) -> None:
        """Fill `_ready` from the read position, over segment ends, skipping what is acknowledged and what is damaged."""
        for number in list_segments(self.directory):
            if number < self._read_to[0]:
                continue
            offset = self._read_to[1] if number == self._read_to[0] else 0
            while not self._ready:
                data = self._load(number, offset, _READ_BYTES)
                found, consumed, damaged = frames.decode(data)
                if not consumed and len(data) == _READ_BYTES:
                    data = self._load(number, offset, -1)  # one line longer than the usual read
                    found, consumed, damaged = frames.decode(data)
                if not consumed:
                    break  # the end, or a line still being written
                self.damaged += damaged
                self._ready = [
                    (frame, (number, offset + after))
                    for frame, after in found
                    if frame.seq > self.ack.get(frame.key, 0)
                ]
                offset += consumed
                self._read_to = (number, offset)
            if self._ready:
                return

    def _load(self, number: int, offset: int, size: int) -> bytes:
        try:
            with open(segment_path(self.directory, number), "rb") as file:
                file.seek(offset)
                return file.read(size)
        except FileNotFoundError:
            return b""

    def _still_has(self, key: str, seq: int) -> bool:
        return any(
            frame.key == key and frame.seq == seq
            for number in list_segments(self.directory)
            for frame, _ in frames.decode(self._load(number, 0, -1))[0]
        )

    def _remove_before(self, number: int) -> None:
        """Remove older segments: everything in them is acknowledged. What is acknowledged is made durable first, or a restart
        would count from 1 again."""
        old = [segment for segment in list_segments(self.directory) if segment < number]
        if not old:
            return
        write_ack(self.directory, self.ack)
        for segment in old:
            remove_segment(self.directory, segment)
