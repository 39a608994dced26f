"""Curves with fewer points: what a reader looks for survives, and the choice depends on the points alone."""

import math
from array import array

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tuneplane_server.domain import downsample
from tuneplane_server.domain.downsample import ROLLUP_WIDTH

doubles = st.floats(allow_nan=True, allow_infinity=True, width=16)
long_curves = st.lists(doubles, min_size=1, max_size=600)


def pick(values, max_points):
    width = downsample.bucket_width(len(values), max_points, has_nan=downsample.has_nan(values))
    return downsample.choose(values, width)


@given(long_curves, st.integers(8, 100))
def test_extremes_ends_and_nan_survive_within_the_bound(values, max_points):
    kept = pick(values, max_points)
    shown = [values[index] for index in kept]
    numbers = [value for value in values if not math.isnan(value)]
    assert len(kept) <= max_points
    assert kept == sorted(set(kept))
    assert (kept[0], kept[-1]) == (0, len(values) - 1)
    if numbers:
        assert min(v for v in shown if not math.isnan(v)) == min(numbers)
        assert max(v for v in shown if not math.isnan(v)) == max(numbers)
    assert any(map(math.isnan, shown)) == any(map(math.isnan, values))


@given(long_curves)
def test_few_points_are_all_kept(values):
    assert pick(values, len(values) + 8) == list(range(len(values)))


@given(st.lists(doubles, min_size=1, max_size=300), st.sampled_from([2, 4, 16, 64]))
def test_every_bucket_keeps_its_own_extremes(values, width):
    kept = set(downsample.choose(values, width))
    for start in range(0, len(values), width):
        part = [v for v in values[start : start + width] if not math.isnan(v)]
        shown = [values[i] for i in range(start, min(start + width, len(values))) if i in kept]
        if part:
            assert min(part) in shown
            assert max(part) in shown


@given(st.lists(doubles, min_size=1, max_size=300), st.lists(doubles, max_size=50), st.sampled_from([2, 8, 64]))
def test_appending_points_changes_only_the_last_bucket(values, more, width):
    stable = (len(values) - 1) // width * width
    before = [index for index in downsample.choose(values, width) if index < stable]
    after = [index for index in downsample.choose(values + more, width) if index < stable]
    assert before == after


@given(st.lists(doubles, min_size=1, max_size=700), st.sampled_from([64, 128, 256, 512]))
@example([0.0, math.nan, math.inf, -math.inf, 0.0] * 100, 64)
def test_choosing_from_rollups_gives_what_choosing_from_the_points_gives(values, width):
    positions = downsample.choose(values, ROLLUP_WIDTH)
    chosen = downsample.choose([values[index] for index in positions], width, positions)
    assert [positions[index] for index in chosen] == downsample.choose(values, width)


def test_an_empty_curve_stays_empty():
    assert downsample.choose([], 1) == []
    assert downsample.choose([], 64) == []


@pytest.mark.parametrize("has_nan", [True, False])
def test_the_width_doubles_until_the_bound_holds(has_nan):
    widths = [downsample.bucket_width(count, 100, has_nan=has_nan) for count in range(1, 5000)]
    assert widths == sorted(widths)
    assert all(width & (width - 1) == 0 for width in widths)


def test_nan_is_found_beside_infinities_of_both_signs():
    assert not downsample.has_nan(array("d", [math.inf, -math.inf]))
    assert downsample.has_nan(array("d", [math.inf, math.nan]))
    assert not downsample.has_nan(array("d", [1.0]))


def test_columns_are_chosen_from_as_lists_are():
    values = [3.0, 1.0, 2.0, 5.0, 4.0]
    buckets = [(0, 3), (3, 5)]
    assert (
        downsample.choose_within(array("d", values), buckets)
        == downsample.choose_within(values, buckets)
        == [0, 1, 3, 4]
    )
    assert downsample.choose_within([], []) == []
