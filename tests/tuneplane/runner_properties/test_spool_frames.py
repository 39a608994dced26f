"""Whatever the bytes on the disk are: what was written whole is read once, in order, and damage costs what it hits."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tuneplane.contract.words import STREAMS
from tuneplane.runner import frames
from tuneplane.runner.cursor import Cursor
from tuneplane.runner.segments import segment_path
from tuneplane.runner.spool import Spool

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
bodies = st.dictionaries(
    st.text(min_size=1).filter(lambda key: key not in ("attempt", "rank", "stream", "seq")), json_values, max_size=4
)
records = st.tuples(st.sampled_from(STREAMS), st.integers(0, 3), bodies)


@settings(deadline=None)
@given(st.lists(records, max_size=8), st.binary(max_size=40), st.integers(0, 10_000), st.integers(0, 7))
def test_frames_survive_what_lies_between_them(
    written: list[tuple[str, int, dict[str, object]]], garbage: bytes, cut: int, place: int
) -> None:
    lines = [frames.encode(1, stream, rank, seq, body) for seq, (stream, rank, body) in enumerate(written, 1)]
    place = min(place, len(lines))
    data = b"".join(lines[:place]) + garbage.replace(b"\n", b"") + b"\n" + b"".join(lines[place:])
    found, end, damaged = frames.decode(data)
    assert [frame.seq for frame, _ in found] == list(range(1, len(lines) + 1))
    assert (end, damaged) == (len(data), 1)
    # Cut anywhere: a whole beginning is left, and the rest is none.
    part = data[: min(cut, len(data))]
    kept, end, _ = frames.decode(part)
    assert [frame.seq for frame, _ in kept] == list(range(1, len(kept) + 1))
    assert part[end:].count(b"\n") == 0


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_bytes_that_are_no_spool_are_no_records(data: bytes) -> None:
    assert frames.decode(data)[0] == []


@settings(deadline=None, max_examples=25)  # each syncs files
@given(st.lists(records, min_size=1, max_size=12), st.data())
def test_a_spool_that_is_torn_and_continued_gives_every_whole_record_once(
    written: list[tuple[str, int, dict[str, object]]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spool = Spool(folder, 1, 0, max_bytes=64 * 1024)
        for stream, rank, body in written:
            spool.append(stream, rank, body)
            if data.draw(st.booleans()):
                spool.flush()
        spool.flush()
        path = Path(segment_path(spool.directory, 1))
        content = path.read_bytes()
        path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
        whole = [(frame.key, frame.seq) for frame, _ in frames.decode(path.read_bytes())[0]]
        again = Spool(folder, 1, 0, max_bytes=64 * 1024)
        again.append("log", 0, {"time": 1.0, "fd": "stdout", "data": "after"})
        again.close()
        cursor, found = Cursor(again.directory), []
        while (batch := cursor.next_batch(max_records=data.draw(st.integers(1, 5)))) is not None:
            found += [(frame.key, frame.seq) for frame in batch.frames]
            cursor.confirm(batch, {})
    logs = sum(key == "0/log" for key, _ in whole)
    assert found == [*whole, ("0/log", logs + 1)]
