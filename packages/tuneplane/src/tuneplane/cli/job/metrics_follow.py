"""Follow the metrics of a job: curves drawn anew as points come, or each new point as a line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from tuneplane.cli.job.curves import Point, spliced
from tuneplane.cli.job.follow import Patience
from tuneplane.cli.text import clean, note
from tuneplane.client.changes import Changes
from tuneplane.client.http import Console
from tuneplane.client.types import CurvePart, Metrics
from tuneplane.contract.words import TERMINAL_PHASES
from tuneplane.i18n import _

HOME = "\x1b[H\x1b[2J"  # the cursor home, the screen empty (ECMA-48)
MAX_POINTS = 10_000

type Read = Callable[[list[str], int | None], dict[str, list[CurvePart]]]
"""(metrics, from which step on) -> their curves."""


def follow_drawn(console: Console, run: str, draw: Callable[[], str]) -> None:
    """Draw into the terminal until the job is over."""
    patience, shown = Patience(), ""
    with Changes(console, run) as changes:
        while True:
            over = patience.call(lambda: console.job(run)["phase"]) in TERMINAL_PHASES
            text = patience.call(draw)
            if text != shown:
                sys.stdout.write(HOME + text)
                sys.stdout.flush()
                shown = text
            if over:
                return
            changes.wait()


def follow_points(
    console: Console, run: str, names: Callable[[Metrics], list[str]], read: Read, *, as_json: bool
) -> None:
    """Print the points from the first on, each once, until the job is over. What came before the first look is thinned when it is
    very long, and that is said."""
    patience, last = Patience(), {}
    with Changes(console, run) as changes:
        while True:
            over = patience.call(lambda: console.job(run)["phase"]) in TERMINAL_PHASES
            metrics = patience.call(lambda: console.metrics(run))
            for name in names(metrics):
                seen: tuple[int, int] | None = last.get(name)
                found = patience.call(lambda name=name, first=_first(metrics, name, seen): read([name], first))
                if seen is None:
                    _say_thinned(name, found.get(name, []))
                for point in spliced(found.get(name, [])):
                    if seen is None or (point.attempt, point.step) > seen:
                        last[name] = (point.attempt, point.step)
                        _write(name, point, as_json=as_json)
            sys.stdout.flush()
            if over:
                return
            changes.wait()


def _say_thinned(name: str, parts: list[CurvePart]) -> None:
    count, shown = sum(part.get("count", 0) for part in parts), sum(len(part["step"]) for part in parts)
    if count > shown:
        text = _(
            "{name}: {shown} of {count} points are shown, among them every minimum and maximum; --export writes all"
        )
        note(text.format(name=clean(name), shown=shown, count=count))


def _first(metrics: Metrics, name: str, seen: tuple[int, int] | None) -> int | None:
    """The first step to ask for: behind the last one seen, unless a later attempt has begun, which repeats steps."""
    attempts = metrics["metrics"][name].get("attempts") or []
    return None if seen is None or (attempts and attempts[-1] > seen[0]) else seen[1] + 1


def _write(name: str, point: Point, *, as_json: bool) -> None:
    if as_json:
        value: float | str = point.value if abs(point.value) < float("inf") else _word(point.value)
        line = {"name": name, "attempt": point.attempt, "step": point.step, "value": value}
        sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(f"{name}  {point.step}  {point.value:.6g}\n")


def _word(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
