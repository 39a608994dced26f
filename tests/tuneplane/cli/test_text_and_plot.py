"""Text for terminals: columns that line up, curves, times, and nothing that steers the terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf, isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane.cli.job.show_text import age, duration, local_time, moment
from tuneplane.cli.plot import plot, smooth
from tuneplane.cli.text import clean, fields, table, width, wrap


def test_columns_line_up_also_with_wide_characters() -> None:
    lines = table(["A", "B"], [("实验", 1), ("x", None), ("long name", 3)]).splitlines()
    assert [width(line) - len(line.split()[-1]) for line in lines] == [11, 11, 11, 11]
    assert lines[2].endswith("-")


def test_fields_without_a_value_are_left_out() -> None:
    assert fields([("a", 1), ("long", None), ("b", ""), ("c", 0)]) == "a  1\nc  0\n"


def test_wrapped_lines_fit_also_with_wide_characters() -> None:
    text = "检查锁、config 的每个键（类型和范围），以及方法需要的文件。不需要控制台。"
    for columns in range(12, 60):
        lines = wrap(text, columns, "  ")
        assert all(width(line) <= columns for line in lines)
        assert "".join(line.strip() for line in lines).replace(" ", "") == text.replace(" ", "")
        assert not any(line.lstrip()[0] in "，。、）" or line[-1] == "（" for line in lines)


def test_words_are_kept_whole_when_wrapped() -> None:
    assert wrap("one two  three https://tuneplane.example/x", 9) == ["one two", "three", "https://tuneplane.example/x"]
    assert wrap("", 9) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain 文", "plain 文"), ("a\tb\nc", "a b c"), ("\x1b[2J", "�[2J"), ("\x00\x9b", "��"), ("‮x", "�x")],
)
def test_control_characters_never_reach_the_terminal(text: str, shown: str) -> None:
    assert clean(text) == shown


@given(st.text())
def test_whatever_comes_out_is_printable(text: str) -> None:
    assert all(char.isprintable() for char in clean(text))


def test_a_curve_shows_its_bounds() -> None:
    lines = plot([(step, step * 2.0) for step in range(101)], columns=20, rows=4).splitlines()
    assert lines[0].startswith("200 ┤")
    assert lines[3].startswith("  0 ┤")
    assert lines[4].startswith("    └0")
    assert lines[4].endswith("100")


@given(st.lists(st.tuples(st.floats(-1e300, 1e300), st.floats()), max_size=50))
def test_any_points_give_a_curve_that_fits(points: list[tuple[float, float]]) -> None:
    drawn = plot(points, columns=30, rows=5)
    if any(abs(y) not in (inf,) and y == y for _x, y in points):
        lines = drawn.splitlines()
        assert len(lines) == 6
        assert all(len(line.partition("┤")[2]) <= 30 for line in lines[:5])
    else:
        assert drawn == ""


def test_a_curve_between_the_ends_of_all_numbers_is_drawn() -> None:
    lines = plot([(0, -1.7e308), (1, 0.0), (2, 1.7e308)], columns=20, rows=4).splitlines()
    assert lines[0].startswith(" 1.7e+308 ┤")
    assert lines[3].startswith("-1.7e+308 ┤")


def test_points_that_are_no_numbers_are_left_out() -> None:
    assert plot([(1, nan), (2, inf)]) == ""
    assert plot([(nan, 1.0)]) == ""
    assert plot([(1, nan), (2, 5.0)]) != ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (-5, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (200_000, "2 d")]
)
def test_durations_are_told_in_one_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("value", [None, "", "soon", {}, [], True, 1e300, -1e300, nan, "2026-13-01"])
def test_what_is_no_time_is_none(value: object) -> None:
    assert moment(value) is None
    assert local_time(value) is None
    assert age(value) == "-"


def test_times_of_the_wire_are_read() -> None:
    expected = datetime(2026, 1, 31, 12, tzinfo=UTC)
    for value in ("2026-01-31T12:00:00Z", "2026-01-31T13:00:00+01:00", "2026-01-31T12:00:00", expected.timestamp()):
        assert moment(value) == expected
    assert age("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, 3, tzinfo=UTC)) == "3 min"


def test_a_value_that_is_no_number_breaks_the_line() -> None:
    whole = plot([(0, 0.0), (1, 1.0), (2, 0.0), (3, 1.0)], columns=24, rows=4)
    broken = plot([(0, 0.0), (1, 1.0), (1.5, nan), (2, 0.0), (3, 1.0)], columns=24, rows=4)
    dots = [
        sum(bin(ord(char) - 0x2800).count("1") for char in text if 0x2800 <= ord(char) < 0x2900)
        for text in (whole, broken)
    ]
    assert dots[1] < dots[0]
    assert whole.splitlines()[0] != broken.splitlines()[0] or whole != broken


def test_the_places_below_read_as_they_are_asked_to() -> None:
    last = plot([(0, 0.0), (3600, 1.0)], columns=30, rows=4, show_x=lambda x: f"<{x:.0f}>").splitlines()[-1]
    assert "<0>" in last
    assert last.endswith("<3600>")


def test_smoothing_begins_with_the_first_value_and_passes_over_what_is_none() -> None:
    assert smooth([4.0, 4.0, 4.0], 0.9) == pytest.approx([4.0, 4.0, 4.0])
    found = smooth([1.0, nan, 3.0], 0.5)
    assert found[0] == 1.0
    assert isnan(found[1])
    assert found[2] == pytest.approx((1.0 * 0.25 + 3.0 * 0.5) / 0.75)
