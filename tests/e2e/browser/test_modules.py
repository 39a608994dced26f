"""The browser's modules on their own: splicing attempts, smoothing, numbers, lines of a log."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

from tuneplane_server.console import display


@pytest.fixture
def modules(page: Page, static_address: str) -> Page:
    """A page of the same origin as the modules; `img/icon.svg` is the smallest there is."""
    page.goto(f"{static_address}/img/icon.svg")
    return page


def call(page: Page, module: str, expression: str, argument: Any = None) -> Any:
    """Evaluate `expression` with the module's exports as `m` and `a` = argument."""
    return page.evaluate(f"async (a) => {{ const m = await import('/js/{module}'); return ({expression}); }}", argument)


def points(attempt: int, steps: list[int], values: list[Any], start: float = 0.0) -> dict[str, Any]:
    return {"attempt": attempt, "step": steps, "time": [start + step for step in steps], "value": values}


RESUMED = [points(1, [1, 2, 3, 4], [4.0, 3.0, 2.0, 1.0]), points(2, [3, 4, 5], [2.5, 1.5, 0.5], 100.0)]


def test_a_later_attempt_takes_over_and_what_it_replaced_stays(modules: Page) -> None:
    columns = call(
        modules,
        "curves/series.js",
        "(() => { const s = new m.Series('x'); s.replace(a); const c = s.columns('step');"
        " const plain = (v) => v.map((y) => y === undefined ? 'passes' : y);"
        " return {x: c.x, kept: plain(c.kept), replaced: plain(c.replaced), marks: c.marks}; })()",
        RESUMED,
    )
    assert columns["x"] == [1, 2, 3, 3, 4, 4, 5]
    assert columns["kept"] == [4, 3, "passes", 2.5, "passes", 1.5, 0.5]
    assert columns["replaced"] == ["passes", "passes", 2, "passes", 1, "passes", "passes"]
    assert columns["marks"] == [{"x": 3, "attempt": 2}]


def test_on_a_clock_the_line_breaks_between_attempts(modules: Page) -> None:
    kept = call(
        modules, "curves/series.js", "(() => { const s = new m.Series('x'); s.replace(a); return s.columns('time').kept; })()",
        RESUMED,
    )  # fmt: skip
    assert kept == [4, 3, None, None, None, 2.5, 1.5, 0.5]


def test_values_that_are_no_numbers_break_the_line_and_are_marked(modules: Page) -> None:
    columns = call(
        modules,
        "curves/series.js",
        "(() => { const s = new m.Series('x'); s.replace(a); const c = s.columns('step'); return [c.kept, c.odd]; })()",
        [points(1, [1, 2, 3, 4], [1.0, "NaN", "Infinity", 2.0])],
    )
    assert columns == [[1, None, None, 2], [1, 2]]


def test_new_points_are_added_once(modules: Page) -> None:
    result = call(
        modules,
        "curves/series.js",
        "(() => { const s = new m.Series('x'); s.replace([a[0]]); s.append([a[1]]); s.append([a[1]]);"
        " return [s.attempts[0].step, s.attempts[0].value, s.latest]; })()",
        [points(1, [1, 2], [4.0, 3.0]), points(1, [2, 3], [3.5, 2.0])],
    )
    assert result == [[1, 2, 3], [4.0, 3.5, 2.0], 2.0]


def test_smoothing_keeps_the_first_value_and_passes_over_gaps(modules: Page) -> None:
    smoothed = call(modules, "curves/series.js", "m.smooth(a, 0.5)", [4.0, None, 2.0])
    assert smoothed[0] == pytest.approx(4.0)
    assert smoothed[1] is None
    assert smoothed[2] == pytest.approx((4 * 0.25 + 2 * 0.5) / 0.75)


@pytest.mark.parametrize(
    "value",
    [0, 7, 1234567, 0.123456789, 12.3456, 1.5, -2.25e-5, 99999.96, 1e300, 0.001, 1e-3 / 3, "NaN", "-Infinity", None],
)
def test_numbers_read_the_same_from_the_server_and_in_the_browser(modules: Page, value: Any) -> None:
    assert call(modules, "format.js", "m.number(a)", value) == display.number(value)


@pytest.mark.parametrize("seconds", [0, 59, 185, 8040, 273600])
def test_durations_read_the_same_from_the_server_and_in_the_browser(modules: Page, seconds: int) -> None:
    assert call(modules, "format.js", "m.duration(a)", seconds) == display.duration(seconds)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[32mgreen\x1b[0m text", "green text"),
        ("\x1b]8;;https://example.test\x07link\x1b]8;;\x07", "link"),
        ("a\x00b\x07c\td\n", "abc\td"),
        ("\x1b[2K\x1b[1Gprogress", "progress"),
        ("中文 é 🎉", "中文 é 🎉"),
    ],
)
def test_log_lines_lose_their_terminal_codes(modules: Page, raw: str, shown: str) -> None:
    assert call(modules, "logs/lines.js", "m.clean(a)", raw) == shown
