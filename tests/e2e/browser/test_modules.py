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
        "(() => { const s = new m.Series('x'); s.replace(a); const c = s.columns('step'); return [c.kept, c.odd.map((point) => point.step)]; })()",
        [points(1, [1, 2, 3, 4], [1.0, "NaN", "Infinity", 2.0])],
    )
    assert columns == [[1, None, None, 2], [2, 3]]


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


def test_lines_of_several_runs_share_one_x_and_keep_their_gaps(modules: Page) -> None:
    laid = call(
        modules,
        "curves/lines.js",
        "(async () => { const { Series } = await import('/js/curves/series.js');"
        " const lines = a.map((list) => { const s = new Series('x'); s.replace(list); return {series: s, start: 0}; });"
        " const { data, at } = m.lay(lines, {axis: 'step', smoothing: 0, log: false});"
        " const plain = (v) => v.map((y) => y === undefined ? 'passes' : y);"
        " return {x: data[0], kept: [plain(data[2]), plain(data[5])], at: at.map((one) => one.map((p) => p && p.step))}; })()",
        [[points(1, [1, 3], [1.0, "NaN"])], [points(1, [2, 3], [5.0, 6.0])]],
    )
    assert laid["x"] == [1, 2, 3]
    assert laid["kept"] == [[1, "passes", None], ["passes", 5, 6]]
    assert laid["at"] == [[1, None, 3], [None, 2, 3]]


def test_a_closer_look_stands_in_the_place_of_what_it_shows(modules: Page) -> None:
    found = call(
        modules,
        "curves/series.js",
        "(() => { const s = new m.Series('x'); s.replace([{...a[0], count: 100}]); const out = [s.isThinned([4, 6]), s.stepsWithin([3.5, 7], 'step', 0)];"
        " s.refine([a[1]]); out.push(s.columns('step').x, s.columns('step').kept); s.refine([]); out.push(s.columns('step').x); return out; })()",
        [points(1, [1, 5, 9], [1.0, 5.0, 9.0]), points(1, [4, 5, 6], [4.0, 5.5, 6.0])],
    )
    assert found == [True, [1, 9], [1, 4, 5, 6, 9], [1, 4, 5.5, 6, 9], [1, 5, 9]]


def test_tokens_and_time_since_the_start_are_axes(modules: Page) -> None:
    part = points(1, [1, 2, 3], [1.0, 2.0, 3.0], 100.0) | {"x": [None, 2000.0, 3000.0]}
    expression = "(() => { const s = new m.Series('x'); s.replace([a]); return [s.columns('tokens').x, s.columns('relative', 100).x]; })()"
    assert call(modules, "curves/series.js", expression, part) == [[2000, 3000], [1, 2, 3]]


def test_scenario_18_ten_thousand_names_make_sixty_cards_at_a_time(modules: Page) -> None:
    """Scenario 18: whatever the names hold, cards are made in portions, pinned ones first, and go again with the filter."""
    found = call(
        modules,
        "curves/groups.js",
        """(() => {
          const page = document.implementation.createHTMLDocument('');
          const root = page.createElement('div');
          root.innerHTML = '<div data-groups></div><template data-group-template><details class="group"><summary><h2></h2><span></span></summary><div class="charts"></div><button class="more"></button></details></template>';
          localStorage.setItem('tuneplane-pins', JSON.stringify([a.pinned, 'not there']));
          const cards = new Map();
          const groups = new m.Groups(root, {primary: 'train/loss', makeCard: (name) => {
            if (!cards.has(name)) { const card = page.createElement('article'); card.dataset.metric = name; cards.set(name, card); }
            return cards.get(name);
          }, dropCard: (name) => { cards.get(name).remove(); cards.delete(name); }});
          groups.onChange = () => groups.layout('');
          for (const name of a.odd) groups.add(name);
          for (let n = 0; n < 10000; n++) groups.add(`train/layer/${n}`);
          const began = performance.now();
          const passed = groups.layout('');
          const first = [...root.querySelectorAll('article')].map((card) => card.dataset.metric);
          root.querySelectorAll('.more')[1].click();
          const more = cards.size;
          groups.layout('layer/77$');
          const filtered = [...cards.keys()];
          localStorage.removeItem('tuneplane-pins');
          return {passed, first: first.slice(0, 3), count: first.length, more, filtered, spent: performance.now() - began, heads: root.querySelectorAll('details').length};
        })()""",
        {"pinned": "train/layer/9000", "odd": ["train/loss", "../../etc", '"><img src=x>', "💥", "x" * 200]},
    )
    assert found["passed"] == 10_005
    assert found["first"] == ["train/layer/9000", "train/loss", "train/layer/0"]
    assert found["count"] <= 70
    assert found["more"] <= 130
    assert found["filtered"] == ["train/layer/77"]
    assert found["heads"] <= 28
