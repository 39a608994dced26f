"""Chunks of metric points: every double comes back bit for bit, and damaged bytes are told from good ones."""

import math
import struct
from array import array

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tuneplane_server.domain import series_codec
from tuneplane_server.domain.series_codec import ChunkError

steps = st.integers(-(2**63), 2**63 - 1)
doubles = st.floats(allow_nan=True, allow_infinity=True)
points = st.lists(st.tuples(steps, doubles, doubles, doubles), max_size=200)


def columns_of(rows, with_epoch):
    return series_codec.columns(
        [row[0] for row in rows],
        [row[1] for row in rows],
        [row[2] for row in rows],
        [row[3] for row in rows] if with_epoch else None,
    )


def bits(values):
    return [struct.pack("<d", value) for value in values]


@given(points, st.booleans())
def test_decoding_gives_back_every_bit(rows, with_epoch):
    data = columns_of(rows, with_epoch)
    back = series_codec.decode(series_codec.encode(data), len(rows))
    assert back.step == data.step
    assert bits(back.time) == bits(data.time)
    assert bits(back.value) == bits(data.value)
    assert (back.epoch is None) == (not with_epoch)
    if with_epoch:
        assert bits(back.epoch) == bits(data.epoch)


def test_a_regular_series_takes_less_than_half_of_its_plain_size():
    data = series_codec.columns(range(4096), [1.7e9 + step for step in range(4096)], [step / 8 for step in range(4096)])
    stored = series_codec.encode(data)
    assert len(stored) < 4096 * 24 / 2
    assert series_codec.decode(stored, 4096) == data


def test_the_wires_three_strings_become_ieee_values_and_go_back():
    data = series_codec.columns([1, 2, 3, 4], [0, 0, 0, 0], [1.5, "NaN", "Infinity", "-Infinity"])
    assert math.isnan(data.value[1])
    assert data.value[2:] == array("d", [math.inf, -math.inf])
    back = series_codec.decode(series_codec.encode(data), 4)
    assert series_codec.json_numbers(back.value) == [1.5, "NaN", "Infinity", "-Infinity"]
    assert [series_codec.json_number(value) for value in back.value] == [1.5, "NaN", "Infinity", "-Infinity"]


@pytest.mark.parametrize("lengths", [(1, 2, 2, None), (2, 1, 2, None), (2, 2, 1, None), (2, 2, 2, 1)])
def test_columns_of_different_length_are_refused(lengths):
    step, time, value, epoch = lengths
    with pytest.raises(ValueError, match="length"):
        series_codec.columns([0] * step, [0.0] * time, [0.0] * value, None if epoch is None else [0.0] * epoch)


@given(st.lists(doubles, min_size=1, max_size=50))
@example([math.nan])
@example([math.nan, 1.0, -math.inf])
@example([math.inf, -math.inf])
def test_the_summary_ignores_nan_and_keeps_infinities(values):
    found = series_codec.summary(series_codec.columns(list(range(len(values))), [0.0] * len(values), values))
    numbers = [value for value in values if not math.isnan(value)]
    assert found.count == len(values)
    assert (found.step_min, found.step_max) == (0, len(values) - 1)
    assert found.value_min == (min(numbers) if numbers else None)
    assert found.value_max == (max(numbers) if numbers else None)


@given(points, st.integers(0, 200))
def test_cutting_and_joining_changes_nothing(rows, at):
    data = columns_of(rows, with_epoch=True)
    back = series_codec.joined([data.cut(0, at), data.cut(at, len(rows))])
    assert back.step == data.step
    assert bits(back.value) == bits(data.value)
    assert bits(back.epoch) == bits(data.epoch)


def test_joining_with_a_part_without_epochs_drops_them():
    with_epoch = series_codec.columns([1], [1.0], [1.0], [0.5])
    without = series_codec.columns([2], [2.0], [2.0])
    assert series_codec.joined([with_epoch, without]).epoch is None
    assert series_codec.joined([without, with_epoch]).step == array("q", [2, 1])


def test_taking_points_keeps_their_columns_together():
    data = series_codec.columns([1, 2, 3], [10.0, 20.0, 30.0], [0.1, 0.2, 0.3], [1.0, 2.0, 3.0])
    taken = data.take([0, 2])
    assert taken == series_codec.columns([1, 3], [10.0, 30.0], [0.1, 0.3], [1.0, 3.0])
    assert series_codec.columns([1], [1.0], [1.0]).take([0]).epoch is None


def good(count=100):
    return series_codec.encode(series_codec.columns(list(range(count)), [0.0] * count, [0.0] * count))


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 0),
        (b"\x04", 0),
        (good(), 99),
        (good(), 101),
        (good(), -1),
        (good(), 1 << 21),
        (good()[:-3], 100),
        (b"\x01not zstd", 3),
        (b"\x00short", 1),
    ],
)
def test_damaged_chunks_are_told_from_good_ones(data, count):
    with pytest.raises(ChunkError):
        series_codec.decode(data, count)


def test_a_big_endian_machine_writes_the_same_bytes():
    column = array("d", [1.0, -2.5])
    swapped = series_codec._little_endian(column, "big")
    assert swapped.tobytes() == struct.pack(">2d", 1.0, -2.5)
    assert column.tobytes() == struct.pack("<2d", 1.0, -2.5)
