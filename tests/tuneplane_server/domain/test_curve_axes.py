"""What curves are drawn over besides their steps."""

from __future__ import annotations

from math import inf, nan

from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain.curve_axes import at_steps, relative


def test_relative_times_count_from_the_start_and_odd_times_have_no_place():
    assert relative([10.0, 12.5, nan, inf, 5.0], 10.0) == [0.0, 2.5, None, None, -5.0]


def test_between_two_known_points_it_is_the_straight_line_and_outside_it_is_unknown():
    assert at_steps([0, 1, 2, 3, 4, 5], [1, 3, 4], [100.0, 300.0, 500.0]) == [None, 100.0, 200.0, 300.0, 500.0, None]


def test_points_that_are_no_numbers_do_not_count_and_nothing_known_is_nothing():
    assert at_steps([1, 2, 3], [1, 2, 3], [10.0, nan, 30.0]) == [10.0, 20.0, 30.0]
    assert at_steps([1, 2], [], []) == [None, None]
    assert at_steps([], [1], [1.0]) == []


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=30, unique=True).map(sorted), st.integers(-10, 1010))
def test_a_count_that_never_falls_gives_places_that_never_fall(steps, step):
    values = [float(2 * one) for one in steps]
    (found,) = at_steps([step], steps, values)
    if steps[0] <= step <= steps[-1]:
        assert found is not None
        assert abs(found - 2 * step) < 1e-6
    else:
        assert found is None
