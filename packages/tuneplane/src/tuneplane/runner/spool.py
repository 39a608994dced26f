"""Writing side of the spool: assigns seq, keeps within its bound, survives SIGKILL between any two lines.

A record gets its seq when it is accepted and keeps it on disk, so nothing that is shipped twice is stored twice. A record
that does not fit gets no seq; it is counted, and a `gap` event says how many are missing once there is room again.
Used by one thread (the recorder).
"""

from __future__ import annotations

import os
from time import monotonic, time
from typing import Any, Dict, List, Optional, Tuple

from tuneplane.contract.words import STREAM_EVENT, STREAM_LOG
from tuneplane.runner import frames, limits
from tuneplane.runner.files import write_all
from tuneplane.runner.segments import (
    list_segments,
    make_rank_directory,
    mark_closed,
    read_ack,
    segment_path,
    used_bytes,
)

_BUFFER_BYTES = 4 * 1024 * 1024
_RECOUNT_SECONDS = 0.2


class Spool:
    """`spool_dir` is the attempt's spool directory; this machine writes below `rank-<machine_rank>`."""

    def __init__(self, spool_dir: str, attempt: int, machine_rank: int, max_bytes: int = limits.SPOOL_BYTES) -> None:
        self.directory = make_rank_directory(spool_dir, machine_rank)
        self.attempt = attempt
        self.machine_rank = machine_rank
        self.lost: Dict[str, int] = {}  # stream -> records dropped, whole life
        self._max_bytes = max_bytes
        self._segment_bytes = max(4096, min(limits.SEGMENT_BYTES, max_bytes // 8))
        # (stream, rank) -> [records, bytes, seq before the gap], not written yet. While a gap is open everything of its stream
        # is dropped: a small record that still fits would make it two gaps.
        self._gaps: Dict[Tuple[str, int], List[int]] = {}
        self._buffer: List[bytes] = []
        self._buffered = 0
        self._fd: Optional[int] = None
        self._size = 0
        self._synced = True
        self._synced_at = monotonic()
        self._seq = self._last_seqs()
        numbers = list_segments(self.directory)
        self._number = numbers[-1] if numbers else 0
        self._used = used_bytes(self.directory)
        self._counted_at = monotonic()

    def append(self, stream: str, rank: int, body: Dict[str, Any]) -> bool:
        """Take one record; False when it was dropped because the spool is full. On disk after `flush`."""
        if self._gaps:
            self._write_gaps()
        return self._append(stream, rank, body)

    def note_loss(self, stream: str, records: int, size: int) -> None:
        """Count records that were lost before they came here."""
        self._lose(stream, self.machine_rank, records, size)

    def flush(self, final: bool = False) -> bool:
        """Write what was appended; True when something reached the file. A failed write is tried again next time."""
        if final and self._gaps:
            self._write_gaps(final=True)
        wrote = self._write_buffer() if self._buffer else False
        if not self._synced and (final or monotonic() - self._synced_at >= limits.SYNC_SECONDS):
            self._sync()
        return wrote

    def close(self) -> None:
        """Nothing comes any more. What could not be written leaves the spool without its mark of being whole."""
        self.flush(final=True)
        self._close_segment()
        if not self._buffer and not self._gaps:
            try:
                mark_closed(self.directory)
            except OSError:
                return  # the spool is then taken for one whose writer was killed: too much is said, nothing is hidden

    def last_seqs(self) -> Dict[str, int]:
        """`<rank>/<stream>` -> the newest seq."""
        return dict(self._seq)

    def _append(self, stream: str, rank: int, body: Dict[str, Any], reserve: float = limits.SPOOL_RESERVE) -> bool:
        key = f"{rank}/{stream}"
        gap_open = stream != STREAM_EVENT and (stream, rank) in self._gaps
        seq = self._seq.get(key, 0) + 1
        frame = frames.encode(self.attempt, stream, rank, seq, body)
        limit = self._max_bytes
        if stream == STREAM_LOG:
            limit = int(limit * (1 - reserve))
        elif stream != STREAM_EVENT:
            limit = int(limit * (1 - reserve / 4))
        if self._buffered + len(frame) > _BUFFER_BYTES:
            self._write_buffer()
        if gap_open or self._buffered + len(frame) > _BUFFER_BYTES or self._total() + len(frame) > limit:
            self._lose(stream, rank, 1, len(frame))
            return False
        self._seq[key] = seq
        self._buffer.append(frame)
        self._buffered += len(frame)
        return True

    def _lose(self, stream: str, rank: int, records: int, size: int) -> None:
        self.lost[stream] = self.lost.get(stream, 0) + records
        gap = self._gaps.setdefault((stream, rank), [0, 0, self._seq.get(f"{rank}/{stream}", 0)])
        gap[0] += records
        gap[1] += size

    def _write_gaps(self, final: bool = False) -> None:
        """Say what is missing. Before the end only when half the spool is free: one event for one gap, not for one record."""
        if not final and self._total() > self._max_bytes // 2:
            return
        gaps, self._gaps = self._gaps, {}
        for (stream, rank), (records, size, after) in gaps.items():
            data = {"stream": stream, "rank": rank, "records": records, "bytes": size, "after_seq": after}
            if not self._append(STREAM_EVENT, self.machine_rank, {"time": time(), "event": "gap", "data": data}):
                self._gaps[(stream, rank)] = [records, size, after]

    def _total(self) -> int:
        """Bytes on disk and in memory. Acknowledged segments vanish under the reader's hands, so it is counted anew when it matters."""
        if self._used + self._buffered > self._max_bytes // 2 and monotonic() - self._counted_at > _RECOUNT_SECONDS:
            self._used, self._counted_at = used_bytes(self.directory), monotonic()
        return self._used + self._buffered

    def _write_buffer(self) -> bool:
        data = b"".join(self._buffer)
        try:
            if self._fd is None or self._size >= self._segment_bytes:
                self._open_next()
            assert self._fd is not None
            write_all(self._fd, data)
        except OSError:
            # Disk full or gone: the frames stay in memory with their seq. What was half-written is cut off, or left behind in
            # a segment that is not continued; frames found twice are told apart by their seq.
            self._abandon_write()
            return False
        self._size += len(data)
        self._used += len(data)
        self._buffer, self._buffered, self._synced = [], 0, False
        return True

    def _abandon_write(self) -> None:
        if self._fd is None:
            return
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            self._close_segment()

    def _open_next(self) -> None:
        """Start a segment; the one before is final and made durable first."""
        self._close_segment()
        self._number += 1
        flags = os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0)
        self._fd = os.open(segment_path(self.directory, self._number), flags, 0o644)
        self._size = 0

    def _close_segment(self) -> None:
        if self._fd is not None:
            self._sync()
            os.close(self._fd)
            self._fd = None

    def _sync(self) -> None:
        self._synced_at = monotonic()
        try:
            if self._fd is not None:
                os.fsync(self._fd)
            self._synced = True
        except OSError:
            self._synced = False  # tried again a second later

    def _last_seqs(self) -> Dict[str, int]:
        """Where each stream goes on after a restart: the highest seq ever acknowledged or still on disk."""
        seqs = read_ack(self.directory)
        for number in list_segments(self.directory):
            with open(segment_path(self.directory, number), "rb") as file:
                for frame, _ in frames.decode(file.read())[0]:
                    seqs[frame.key] = max(seqs.get(frame.key, 0), frame.seq)
        return seqs
