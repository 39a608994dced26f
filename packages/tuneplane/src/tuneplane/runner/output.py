"""Bytes of the trainer between the pipes and the spool: bounded, cheap, never waiting."""

from __future__ import annotations

import base64
import codecs
import re
import threading
from collections import deque
from time import time
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Sequence, Tuple

from tuneplane.contract.words import MAX_LOG_CHUNK_BYTES
from tuneplane.runner import limits

_EAGER_BYTES = 256 * 1024
_FRAME = re.compile(r".{0,100}?\bframe #\d+: ")
_LEFT_OUT = "[tuneplane: stack frames left out: %d]\n"
_HOLD_SECONDS = 1.0  # how long the first bytes of a character wait for the rest


class Chunk(NamedTuple):
    fd: str
    time: float
    data: bytes


class OutputQueue:
    """Filled by the thread that reads the pipes, emptied by the recorder.

    A burst waits for the recorder as it would for a terminal, a fifth of a second at most. When the recorder does not come in
    that time (a hanging disk), output is counted and dropped until it does: a full pipe would stop the trainer.
    """

    def __init__(
        self,
        max_bytes: int = limits.QUEUE_BYTES,
        patience: float = limits.BURST_SECONDS,
        redact: Callable[[Sequence[Chunk]], List[Chunk]] = list,
    ) -> None:
        self._max_bytes = max_bytes
        self._patience = patience
        self._redact = redact
        self._chunks: Deque[Chunk] = deque()
        self._bytes = 0
        self._lost = [0, 0]
        self._woken = False
        self._stalled = False
        lock = threading.Lock()
        self._filled = threading.Condition(lock)
        self._room = threading.Condition(lock)
        self._tail: Deque[Chunk] = deque()
        self._tail_bytes = 0
        self._tail_cut: Dict[str, bool] = {}  # of each stream: whether what is left of it begins within a line

    def put(self, fd: str, data: bytes) -> None:
        with self._filled:
            if fd != "runner":
                self._remember(Chunk(fd, time(), data))
            if self._bytes + len(data) > self._max_bytes and not self._stalled:
                self._filled.notify()
                self._stalled = not self._room.wait_for(lambda: self._bytes == 0, self._patience)
            if self._bytes + len(data) > self._max_bytes:
                self._lost[0] += 1
                self._lost[1] += len(data)
                return
            self._chunks.append(Chunk(fd, time(), data))
            self._bytes += len(data)
            if len(self._chunks) == 1 or self._bytes > _EAGER_BYTES:
                self._filled.notify()

    def wait(self, seconds: float) -> None:
        """Return when there is output or something else to do, at the latest after `seconds`."""
        with self._filled:
            self._filled.wait_for(lambda: bool(self._chunks) or self._woken, seconds)

    def gather(self, seconds: float) -> None:
        """Let more output come together: return when there is much of it or something else to do, or after `seconds`."""
        with self._filled:
            self._filled.wait_for(lambda: self._bytes > _EAGER_BYTES or self._woken, seconds)

    def wake(self) -> None:
        with self._filled:
            self._woken = True
            self._filled.notify()

    def take(self) -> Tuple[List[Chunk], int, int]:
        """Everything waiting, then chunks and bytes lost since the last call."""
        with self._filled:
            chunks, self._chunks, self._bytes = list(self._chunks), deque(), 0
            (lost, size), self._lost = self._lost, [0, 0]
            self._woken = self._stalled = False
            self._room.notify()
        return chunks, lost, size

    def tail(self) -> str:
        """The last lines of the trainer, at most 16,000 characters, without NUL (databases refuse it).

        When that is less than there is, the frames of C++ stacks go first: NCCL's watchdog prints some 60 for each rank, and
        the one line that says why the first rank failed stands in front of all of them.
        """
        with self._filled:
            chunks, cut = list(self._tail), {fd for fd, within in self._tail_cut.items() if within}
        whole: List[Chunk] = []
        for chunk in chunks:
            if chunk.fd in cut:
                _, newline, rest = chunk.data.partition(b"\n")
                if not newline:
                    continue  # the rest of a line may be the rest of a secret
                cut.discard(chunk.fd)
                chunk = chunk._replace(data=rest)
            whole.append(chunk)
        # Each stream by itself: what the other one printed in between would keep two halves of a secret apart.
        text = b"".join(chunk.data for chunk in self._redact(whole)).decode("utf-8", "replace").replace("\0", "\ufffd")
        if len(text) > limits.LOG_TAIL_CHARS:
            text = without_frames(text)
        if len(text) <= limits.LOG_TAIL_CHARS:
            return text
        text = text[-limits.LOG_TAIL_CHARS :]
        newline = text.find("\n")
        return text[newline + 1 :] if 0 <= newline < len(text) // 2 else text

    def _remember(self, chunk: Chunk) -> None:
        self._tail.append(chunk)
        self._tail_bytes += len(chunk.data)
        while self._tail_bytes - len(self._tail[0].data) >= limits.LOG_TAIL_BYTES:
            gone = self._tail.popleft()
            self._tail_bytes -= len(gone.data)
            self._tail_cut[gone.fd] = not gone.data.endswith(b"\n")


class LogChunks:
    """Joins neighbouring reads of one stream into records of at most 64 KiB that do not cut a UTF-8 character."""

    def __init__(self) -> None:
        self._held: Dict[str, Chunk] = {}

    def feed(self, chunks: List[Chunk]) -> List[Chunk]:
        """Records of these reads, in order; the beginning of a character is held back for the next read of its stream."""
        joined: List[Chunk] = []
        parts: List[bytes] = []
        size = 0
        for index, chunk in enumerate(chunks):
            parts.append(chunk.data)
            size += len(chunk.data)
            last = index + 1 == len(chunks) or chunks[index + 1].fd != chunk.fd
            if last or size + len(chunks[index + 1].data) > MAX_LOG_CHUNK_BYTES:
                joined.extend(self._cut(Chunk(chunk.fd, chunk.time, b"".join(parts))))
                parts, size = [], 0
        return joined

    def release(self, now: float, all_of_it: bool = False) -> List[Chunk]:
        """Bytes held back longer than a second: what follows does not come, so they are shown as they are."""
        due = [chunk for chunk in self._held.values() if all_of_it or now - chunk.time > _HOLD_SECONDS]
        for chunk in due:
            del self._held[chunk.fd]
        return due

    def _cut(self, chunk: Chunk) -> List[Chunk]:
        held = self._held.pop(chunk.fd, None)
        data = held.data + chunk.data if held else chunk.data
        records: List[Chunk] = []
        while len(data) > MAX_LOG_CHUNK_BYTES:
            end = MAX_LOG_CHUNK_BYTES - incomplete_utf8(data[:MAX_LOG_CHUNK_BYTES])
            records.append(chunk._replace(data=data[:end]))
            data = data[end:]
        rest = incomplete_utf8(data)
        if rest:
            self._held[chunk.fd] = chunk._replace(data=data[-rest:])
            data = data[:-rest]
        if data:
            records.append(chunk._replace(data=data))
        return records


def log_body(chunk: Chunk) -> Dict[str, Any]:
    """Text when the bytes are UTF-8, else base64: the bytes themselves are kept either way."""
    body: Dict[str, Any] = {"time": round(chunk.time, 3), "fd": chunk.fd}
    try:
        body["data"] = chunk.data.decode("utf-8")
    except UnicodeDecodeError:
        body["data64"] = base64.b64encode(chunk.data).decode("ascii")
    return body


def without_frames(text: str) -> str:
    """`text` with each run of lines `frame #N: …` (c10's stacks, whatever a launcher put before) as one line that counts them."""
    lines: List[str] = []
    frames = 0
    for line in text.splitlines(keepends=True):
        if _FRAME.match(line):
            frames += 1
            continue
        if frames:
            lines.append(_LEFT_OUT % frames)
            frames = 0
        lines.append(line)
    if frames:
        lines.append(_LEFT_OUT % frames)
    return "".join(lines)


def incomplete_utf8(data: bytes) -> int:
    """How many bytes at the end (0 to 3) begin a UTF-8 character that is not complete. 0 when they cannot become one."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 2 if byte >> 5 == 0b110 else 3 if byte >> 4 == 0b1110 else 4 if byte >> 3 == 0b11110 else 1
        if needed <= back:
            return 0
        decoder = codecs.getincrementaldecoder("utf-8")("strict")
        try:
            decoder.decode(data[-back:])
        except UnicodeDecodeError:
            return 0
        return back
    return 0
