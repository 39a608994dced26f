"""Stores log records as chunks of raw bytes, up to the run's quota."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, TypeGuard

from sqlalchemy import Connection

from tuneplane_server.domain import log_codec
from tuneplane_server.domain.acked import SeqRange, runs
from tuneplane_server.domain.log_codec import Piece
from tuneplane_server.features.telemetry.limits import MIB, TelemetryLimits
from tuneplane_server.features.telemetry.records import EventRecord, LogRecord
from tuneplane_server.features.telemetry.repo import logs as repo
from tuneplane_server.features.telemetry.repo.runs import Run
from tuneplane_server.features.telemetry.tables import MARKER_FD


def write_logs(
    connection: Connection,
    run: Run,
    attempt: int,
    records: Iterable[LogRecord],
    limits: TelemetryLimits,
    acknowledged: Callable[[int, int], bool],
) -> LogRecord | None:
    """`records`: not stored yet, by (rank, seq). Returns the record with which the output passed its quota, if it did now.

    `acknowledged(rank, seq)`: whether a piece came before this batch. One that came and is not there was beyond the quota.
    """
    run.log_position = run.position
    rows: list[dict[str, Any]] = []
    passed: LogRecord | None = None
    missing = run.log_dropped_bytes > 0
    for rank, of_rank in groupby(records, key=lambda record: record.rank):
        by_seq = {record.seq: record for record in of_rank}
        for span in runs(by_seq):
            kept: list[LogRecord] = []
            for seq in range(span.first, span.last + 1):
                record, was_full = by_seq[seq], run.log_full_at is not None
                if _fits(run, len(record.data), limits):
                    kept.append(record)
                elif not was_full:
                    passed = record
            place = (run.job_id, attempt, rank)
            if (
                kept
                and missing
                and acknowledged(rank, span.first - 1)
                and not repo.holds(connection, place, span.first - 1)
            ):
                rows += _goes_on(connection, place, kept[0], limits)
            rows += [_row(run.job_id, attempt, rank, span, fd, pieces) for fd, pieces in _chunks(kept)]
    if passed is not None and not repo.exists(connection, (run.job_id, attempt, passed.rank), passed.seq, MARKER_FD):
        text = f"the output passed its quota of {limits.log_bytes // MIB} MiB; what follows is not kept"
        rows.append(_marker(run.job_id, attempt, passed.rank, passed.seq, passed.time, text))
    if rows:
        repo.add(connection, rows)
    return passed


def write_gap(connection: Connection, run: Run, attempt: int, event: EventRecord) -> None:
    """A `gap` event about output: a remark at its place between the lines."""
    after, records, rank = (event.data.get(key) for key in ("after_seq", "records", "rank"))
    if event.data.get("stream") != "log" or not _is_count(after) or not _is_count(records):
        return
    rank = rank if _is_count(rank) else event.rank
    run.log_position = run.position
    if not repo.exists(connection, (run.job_id, attempt, rank), after + 1, MARKER_FD):
        size = event.data.get("bytes")
        lost = f"{records} pieces of output ({size} bytes)" if _is_count(size) else f"{records} pieces of output"
        text = f"{lost} are missing here: the spool of the machine was full"
        repo.add(connection, [_marker(run.job_id, attempt, rank, after + 1, event.time, text)])


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def _fits(run: Run, size: int, limits: TelemetryLimits) -> bool:
    """Whether a piece is kept; counts it either way. After the first that is not, none is until the quota is raised: a log
    that kept what happens to be short would have a hole at every long line.
    """
    still_full = run.log_full_at is not None and limits.log_bytes <= run.log_full_at
    if still_full or run.log_bytes + size > limits.log_bytes:
        run.log_full_at = max(limits.log_bytes, run.log_full_at or 0)
        run.log_dropped_bytes += size
        return False
    run.log_full_at = None
    run.log_bytes += size
    return True


def _goes_on(
    connection: Connection, place: repo.Place, first: LogRecord, limits: TelemetryLimits
) -> list[dict[str, Any]]:
    """A remark in front of the first piece after those that were beyond the quota of then."""
    if repo.exists(connection, place, first.seq, MARKER_FD):
        return []
    text = f"output is missing here: it was beyond the quota, which is {limits.log_bytes // MIB} MiB now"
    return [_marker(*place, first.seq, first.time, text)]


def _chunks(records: list[LogRecord]) -> list[tuple[int, list[Piece]]]:
    """(fd, pieces): pieces of one fd in order, split when a chunk is large enough."""
    open_chunks: defaultdict[int, list[Piece]] = defaultdict(list)
    sizes: defaultdict[int, int] = defaultdict(int)
    done: list[tuple[int, list[Piece]]] = []
    for record in records:
        open_chunks[record.fd].append(Piece(record.seq, record.time, record.data))
        sizes[record.fd] += len(record.data)
        if sizes[record.fd] >= log_codec.MAX_RAW_BYTES:
            done.append((record.fd, open_chunks.pop(record.fd)))
            sizes[record.fd] = 0
    return done + list(open_chunks.items())


def _row(job_id: str, attempt: int, rank: int, span: SeqRange, fd: int, pieces: list[Piece]) -> dict[str, Any]:
    times = [piece.time for piece in pieces]
    last = next((piece.data for piece in reversed(pieces) if piece.data), b"\n")
    return {
        "job_id": job_id,
        "attempt": attempt,
        "rank": rank,
        "seq_first": pieces[0].seq,
        "seq_last": pieces[-1].seq,
        "fd": fd,
        "run_first": span.first,
        "time_first": min(times),
        "time_last": max(times),
        "raw_bytes": sum(len(piece.data) for piece in pieces),
        "newlines": sum(piece.data.count(b"\n") for piece in pieces),
        "ends_line": last.endswith(b"\n"),
        "data": log_codec.encode(pieces),
    }


def _marker(job_id: str, attempt: int, rank: int, seq: int, time: float, text: str) -> dict[str, Any]:
    piece = Piece(seq, time, f"[tuneplane: {text}]\n".encode())
    return _row(job_id, attempt, rank, SeqRange(seq, seq), MARKER_FD, [piece])
