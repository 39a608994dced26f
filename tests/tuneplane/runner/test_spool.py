"""The spool on disk: sequence numbers, torn tails, bounds, a disk that refuses, a restart."""

from __future__ import annotations

import resource
import signal
from pathlib import Path

import pytest

from tuneplane.runner import frames
from tuneplane.runner.cursor import Cursor
from tuneplane.runner.segments import list_segments, segment_path, write_ack
from tuneplane.runner.spool import Spool


def read_all(directory: str) -> list[frames.Frame]:
    cursor, found = Cursor(directory), []
    while True:
        batch = cursor.next_batch(max_records=7)
        if batch is None:
            return found
        found.extend(batch.frames)
        cursor.confirm(batch, {})


def fill(spool: Spool, count: int, size: int = 10) -> None:
    for _ in range(count):
        spool.append("log", 0, {"time": 1.0, "fd": "stdout", "data": "x" * size})
        spool.flush()


def test_records_keep_their_order_over_segments(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 1, 0, max_bytes=64 * 1024)
    fill(spool, 100, 300)
    assert len(list_segments(spool.directory)) > 2
    assert [frame.seq for frame in read_all(spool.directory)] == list(range(1, 101))
    assert len(list_segments(spool.directory)) == 1, "what is acknowledged is removed"


def test_every_stream_and_rank_counts_for_itself(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 1, 0)
    for rank in (0, 3, 0):
        spool.append("metric", rank, {"series": {}})
    spool.append("log", 0, {"time": 1.0, "fd": "stdout", "data": ""})
    spool.close()
    assert [(frame.key, frame.seq) for frame in read_all(spool.directory)] == [
        ("0/metric", 1),
        ("3/metric", 1),
        ("0/metric", 2),
        ("0/log", 1),
    ]


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_torn_tail_is_left_out_and_the_sequence_goes_on(tmp_path: Path, cut: int) -> None:
    spool = Spool(str(tmp_path), 1, 0)
    fill(spool, 5)
    path = Path(segment_path(spool.directory, 1))
    path.write_bytes(path.read_bytes()[:-cut])
    again = Spool(str(tmp_path), 1, 0)
    fill(again, 2)
    assert [frame.seq for frame in read_all(spool.directory)] == [1, 2, 3, 4, 5, 6]


def test_damage_in_the_middle_costs_one_record(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 1, 0)
    fill(spool, 5)
    path = Path(segment_path(spool.directory, 1))
    lines = path.read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b"x", b"y")
    path.write_bytes(b"\n".join(lines))
    cursor = Cursor(spool.directory)
    batch = cursor.next_batch()
    assert batch is not None
    assert [frame.seq for frame in batch.frames] == [1, 2, 4, 5]
    assert cursor.damaged == 1


def test_a_restart_counts_on_after_everything_was_acknowledged_and_removed(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 1, 0)
    fill(spool, 3)
    cursor = Cursor(spool.directory)
    batch = cursor.next_batch()
    assert batch is not None
    cursor.confirm(batch, {})
    cursor.finish()
    assert list_segments(spool.directory) == []
    again = Spool(str(tmp_path), 1, 0)
    fill(again, 1)
    assert [frame.seq for frame in read_all(spool.directory)] == [4]


def test_a_damaged_ack_file_costs_duplicates_only(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 1, 0)
    fill(spool, 3)
    write_ack(spool.directory, {"0/log": 2})
    assert [frame.seq for frame in read_all(spool.directory)] == [3]
    (Path(spool.directory) / "ack.json").write_text('{"0/log": ')
    assert [frame.seq for frame in read_all(spool.directory)] == [1, 2, 3]


def test_the_bound_holds_and_room_brings_the_gap_and_then_records(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 1, 0, max_bytes=64 * 1024)
    while spool.append("log", 0, {"time": 1.0, "fd": "stdout", "data": "x" * 500}):
        spool.flush()
    for _ in range(9):
        spool.append("log", 0, {"time": 1.0, "fd": "stdout", "data": "x" * 500})
    stored = len(read_all(spool.directory))
    assert spool.lost == {"log": 10}
    spool._counted_at = 0.0  # the recount is due; the clock is not what is tested
    assert spool.append("log", 0, {"time": 1.0, "fd": "stdout", "data": "after"})
    spool.close()
    after = read_all(spool.directory)
    assert [(frame.key, frame.seq) for frame in after[-2:]] == [("0/event", 1), ("0/log", stored + 1)]
    assert b'"records":10' in after[-2].payload
    assert b'"after_seq":%d' % stored in after[-2].payload


def test_a_disk_that_refuses_keeps_the_records_until_it_takes_them(tmp_path: Path) -> None:
    """RLIMIT_FSIZE makes the kernel cut writes short and then refuse them, as a full disk does."""
    spool = Spool(str(tmp_path), 1, 0)
    fill(spool, 5, 1000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, hard))
        fill(spool, 20, 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)
    assert len(read_all(spool.directory)) < 25
    spool.close()
    assert spool.lost == {}
    assert [frame.seq for frame in read_all(spool.directory)][-1] == 25


def test_text_that_utf8_cannot_hold_is_replaced(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), 1, 0)
    spool.append("sample", 0, {"samples": [{"data": {"prompt": "\ud800"}}]})
    spool.close()
    assert b'"prompt":"?"' in read_all(spool.directory)[0].payload
