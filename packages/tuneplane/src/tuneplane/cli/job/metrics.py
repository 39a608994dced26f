"""`tp job metrics`."""

from __future__ import annotations

import sys
from typing import Any

import click

from tuneplane.cli.job.curves import AXES, Shown, drawing
from tuneplane.cli.job.ids import find_job
from tuneplane.cli.job.removed import say_removed
from tuneplane.cli.options import Number as FiniteNumber
from tuneplane.cli.options import WholeNumber, job_argument, json_option, server_option, tp_command
from tuneplane.cli.session import open_console
from tuneplane.cli.text import clean, note, table, write, write_json
from tuneplane.client.errors import NotFoundError
from tuneplane.client.http import Console
from tuneplane.client.types import CurvePart, Metrics, MetricSummary, Number
from tuneplane.i18n import _
from tuneplane.lab.plan import show_size

DEFAULT_CURVES = ("train/reward", "train/loss", "train/kl", "validation/loss")
DEFAULT_COUNT = 2
NAMES_AT_ONCE = 20


@tp_command(
    "tp job metrics 06fq9k2m",
    "tp job metrics 06fq9k2m train/loss validation/loss --smooth 0.9",
    "tp job metrics 06fq9k2m train/reward --x tokens -f",
    "tp job metrics 06fq9k2m --export metrics.parquet",
    about=_("A table of every metric, and on a terminal the curves of the main ones, or of those named."),
)
@job_argument
@click.argument("names", metavar="[METRIC]...", nargs=-1)
@click.option("--attempt", type=WholeNumber(1), default=None, help=_("Only of this attempt."))
@click.option("--rank", type=WholeNumber(0), default=None, help=_("As seen by this rank; default: the main one."))
@click.option(
    "--points",
    type=WholeNumber(8, 10000),
    default=500,
    show_default=True,
    help=_("Most points of a curve; minima and maxima survive."),
)
@click.option("--x", "axis", type=click.Choice(AXES), default="step", show_default=True, help=_("Draw over this."))
@click.option(
    "--smooth",
    type=FiniteNumber(0, 0.999),
    default=0.0,
    metavar="WEIGHT",
    help=_("Draw an average; 0.9 weighs the last ten points or so."),
)
@click.option("--plot/--no-plot", "wanted", default=None, help=_("Draw curves; default: on a terminal."))
@click.option("--follow", "-f", is_flag=True, help=_("Go on until the job is over."))
@click.option(
    "--export", metavar="FILE", default=None, help=_("Write every point to a .csv, .json or .parquet file instead.")
)
@server_option
@json_option
def command(
    job: str,
    names: tuple[str, ...],
    attempt: int | None,
    rank: int | None,
    points: int,
    axis: str,
    smooth: float,
    wanted: bool | None,
    follow: bool,
    export: str | None,
    server: str | None,
    as_json: bool,
) -> None:
    chosen, shown = list(names), Shown(axis, smooth)
    with open_console(server) as console:
        run = find_job(console, job)
        if export is not None:
            _export(console, run, export, {"name": chosen or None, "attempt": attempt, "rank": rank})
            return
        query = {"attempt": attempt, "rank": rank, "x": None if axis == "step" else axis}
        draws = sys.stdout.isatty() if wanted is None else wanted
        if follow:
            _follow(console, run, chosen, points, query, shown, draws=draws and not as_json, as_json=as_json)
        elif as_json:
            found = _found(console, run, chosen, rank)
            curves = _curves(console, run, chosen, points, query) if chosen else {}
            write_json({"metrics": found} | ({"series": curves} if curves else {}))
        else:
            write(_text(console, run, chosen, points, query, shown, draws=draws) or _nothing(console, run))


def _text(
    console: Console, run: str, names: list[str], points: int, query: dict[str, Any], shown: Shown, *, draws: bool
) -> str:
    """The table, and the curves below it."""
    found = _found(console, run, names, query["rank"])
    if not found:
        return ""
    head = [_("METRIC"), _("STEP"), _("VALUE"), _("MIN"), _("MAX"), _("POINTS")]
    text = table(head, map(_row, sorted(found.items())))
    drawn = (names or main_metrics(found)) if draws else []
    curves = _curves(console, run, drawn, points, query) if drawn else {}
    return text + "".join(drawing(name, curves.get(name, []), shown, many=len(drawn) > DEFAULT_COUNT) for name in drawn)


def main_metrics(found: dict[str, MetricSummary]) -> list[str]:
    return [name for name in DEFAULT_CURVES if name in found][:DEFAULT_COUNT]


def _nothing(console: Console, run: str) -> str:
    if not say_removed(console.metrics(run).get("removed_at")):
        note(_("no metrics yet"))
    return ""


def _found(console: Console, run: str, names: list[str], rank: int | None) -> dict[str, MetricSummary]:
    found = console.metrics(run, rank)["metrics"]
    _check_names(names, found)
    return {name: found[name] for name in names} if names else found


def _curves(
    console: Console, run: str, names: list[str], points: int, query: dict[str, Any]
) -> dict[str, list[CurvePart]]:
    curves: dict[str, list[CurvePart]] = {}
    for start in range(0, len(names), NAMES_AT_ONCE):
        some = names[start : start + NAMES_AT_ONCE]
        curves |= console.curves(run, some, points, **query)["series"]
    return curves


def _follow(
    console: Console,
    run: str,
    names: list[str],
    points: int,
    query: dict[str, Any],
    shown: Shown,
    *,
    draws: bool,
    as_json: bool,
) -> None:
    from tuneplane.cli.job.metrics_follow import MAX_POINTS, follow_drawn, follow_points

    def chosen(found: Metrics) -> list[str]:
        return [name for name in names if name in found["metrics"]] if names else main_metrics(found["metrics"])

    def read(some: list[str], first: int | None) -> dict[str, list[CurvePart]]:
        return _curves(console, run, some, MAX_POINTS, query | {"x": None, "step_min": first})

    def draw() -> str:
        found = chosen(console.metrics(run, query["rank"]))
        return _text(console, run, found, points, query, shown, draws=True) or _("no metrics yet") + "\n"

    if draws:
        follow_drawn(console, run, draw)
    else:
        follow_points(console, run, chosen, read, as_json=as_json)


def _export(console: Console, run: str, path: str, query: dict[str, Any]) -> None:
    from tuneplane.cli.save import form_of, save

    with console.streamed(run, "metrics/export", {"format": form_of(path), **query}) as answer:
        size = save(path, answer.iter_bytes())
    note(_("wrote {path}, {size}").format(path=path, size=show_size(size)))


def _check_names(names: list[str], found: dict[str, MetricSummary]) -> None:
    for name in names:
        if name not in found:
            from difflib import get_close_matches

            close = get_close_matches(name, found, n=1)
            hint = (
                _("did you mean “{name}”?").format(name=close[0])
                if close
                else _("tp job metrics without a name shows all")
            )
            raise NotFoundError(404, _("the job has no metric “{name}”").format(name=name[:200]), hint, "not-found")


def _row(item: tuple[str, MetricSummary]) -> tuple[object, ...]:
    name, summary = item
    latest = summary["latest"]
    return (
        clean(name),
        latest["step"],
        _number(latest["value"]),
        _number(summary.get("min")),
        _number(summary.get("max")),
        summary.get("count"),
    )


def _number(value: Number | None) -> str | None:
    return f"{value:.6g}" if isinstance(value, float) else None if value is None else str(value)
