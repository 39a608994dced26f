"""Blocks of hardware figures: what goes in comes out, and nothing else is taken for one."""

from __future__ import annotations

import math
from array import array

import pytest
from compression import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneplane_server.domain import downsample, figures
from tuneplane_server.domain.figures import BLOCK_POINTS, MAX_NAMES, Frame, decode, encode
from tuneplane_server.domain.series_codec import ChunkError

NAMES = st.sampled_from(["use", "memory_used", "power", "温度"])
MOMENTS = st.lists(
    st.tuples(st.floats(allow_nan=False), st.dictionaries(NAMES, st.floats(allow_nan=False))), max_size=80
)


def _frame(moments: list[tuple[float, dict[str, float]]]) -> Frame:
    frame = Frame()
    for time, figures_ in moments:
        frame.add(time, figures_)
    return frame


@settings(max_examples=60, deadline=None)
@given(MOMENTS)
def test_what_was_measured_comes_back_and_what_was_not_is_nan(moments: list[tuple[float, dict[str, float]]]) -> None:
    back = decode(encode(_frame(moments)))
    assert list(back.times) == [time for time, _figures in moments]
    assert set(back.columns) == {name for _time, found in moments for name in found}
    for place, (_time, found) in enumerate(moments):
        for name, column in back.columns.items():
            assert column[place] == found[name] if name in found else math.isnan(column[place])


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda data: b"\x02\x00" + zstd.compress(data)))
def test_other_bytes_are_refused_and_crash_nothing(data: bytes) -> None:
    for read in (decode, lambda data: figures.points_of_rollup(data, 0)):
        try:
            read(data)
        except ChunkError:
            continue


def _packed(header: bytes, rest: bytes = b"") -> bytes:
    return zstd.compress(len(header).to_bytes(2, "little") + header + rest)


@pytest.mark.parametrize("damaged", [
    b"\x01",
    b"\x01\x00" + _packed(b'["use"'),
    b"\x01\x00" + _packed(b"5"),
    b"\x01\x00" + _packed(b"[5]"),
    b"\x01\x00" + _packed(b'["use"]', b"12345678"),
    b"\x00\x00" + zstd.compress(b"x"),
])  # fmt: skip
def test_a_damaged_block_is_refused(damaged: bytes) -> None:
    with pytest.raises(ChunkError):
        decode(damaged)


@pytest.mark.parametrize(
    "damaged",
    [
        _packed(b'{"use"'),
        _packed(b"[]"),
        _packed(b'{"use": -1}'),
        _packed(b'{"use": 1}', bytes(24) + b"more"),
        b"no zstd",
    ],
)
def test_a_damaged_rollup_is_refused(damaged: bytes) -> None:
    with pytest.raises(ChunkError):
        figures.points_of_rollup(damaged, 0)


def test_a_bomb_is_refused() -> None:
    with pytest.raises(ChunkError):
        decode(b"\x00\x02" + zstd.compress(b"\0" * 50_000_000))


def test_names_are_bounded() -> None:
    frame = _frame([(1.0, {f"n{index}": 1.0 for index in range(200)} | {"x" * 41: 1.0})])
    assert len(frame.columns) == MAX_NAMES


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-100, 100) | st.just(math.nan), min_size=BLOCK_POINTS, max_size=3 * BLOCK_POINTS))
def test_thin_curves_from_rollups_are_those_from_the_points(values: list[float]) -> None:
    frames = []
    for start in range(0, len(values), BLOCK_POINTS):
        part = values[start : start + BLOCK_POINTS]
        frames.append(Frame(array("d", map(float, range(start, start + len(part)))), {"use": array("d", part)}))
    full = len(values) // BLOCK_POINTS
    points = [figures.points_of(frame, number)["use"] for number, frame in enumerate(frames)]
    rolled = [
        figures.points_of_rollup(figures.rollup(frame), number)["use"] for number, frame in enumerate(frames[:full])
    ]
    whole = figures.thin(points, len(values), downsample.MIN_POINTS)
    assert figures.thin([*rolled, *points[full:]], len(values), downsample.MIN_POINTS) == whole
    measured = [value for value in values if not math.isnan(value)]
    if measured:
        assert (min(whole[1]), max(whole[1])) == (min(measured), max(measured))
