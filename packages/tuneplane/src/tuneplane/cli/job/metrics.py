"""`tp job metrics`."""

from __future__ import annotations

import shutil
import sys

import click

from tuneplane.cli.job.ids import find_job
from tuneplane.cli.options import WholeNumber, job_argument, json_option, server_option, tp_command
from tuneplane.cli.plot import plot
from tuneplane.cli.session import open_console
from tuneplane.cli.text import clean, note, table, write, write_json
from tuneplane.client.errors import NotFoundError
from tuneplane.client.types import CurvePart, MetricSummary, Number
from tuneplane.i18n import _

DEFAULT_CURVES = ("train/reward", "train/loss", "validation/loss")


@tp_command(
    "tp job metrics 06fq9k2m",
    "tp job metrics 06fq9k2m train/loss validation/loss",
    "tp job metrics 06fq9k2m train/loss --points 5000 --json",
    about=_("A table of every metric, and on a terminal the curves of the main ones, or of those named."),
)
@job_argument
@click.argument("names", metavar="[METRIC]...", nargs=-1)
@click.option("--attempt", type=WholeNumber(1), default=None, help=_("Only of this attempt."))
@click.option("--rank", type=WholeNumber(0), default=None, help=_("As seen by this rank; default: the main one."))
@click.option(
    "--points",
    type=WholeNumber(2, 10000),
    default=500,
    show_default=True,
    help=_("Most points of a curve; minima and maxima survive."),
)
@click.option("--plot/--no-plot", "wanted", default=None, help=_("Draw curves; default: on a terminal."))
@server_option
@json_option
def command(
    job: str,
    names: tuple[str, ...],
    attempt: int | None,
    rank: int | None,
    points: int,
    wanted: bool | None,
    server: str | None,
    as_json: bool,
) -> None:
    with open_console(server) as console:
        run = find_job(console, job)
        found = console.metrics(run, rank)["metrics"]
        _check_names(names, found)
        shown = {name: found[name] for name in names} if names else found
        drawn = list(names) or [name for name in DEFAULT_CURVES if name in found][:2]
        curves: dict[str, list[CurvePart]] = {}
        if drawn and ((as_json and names) or (not as_json and (sys.stdout.isatty() if wanted is None else wanted))):
            curves = console.curves(run, drawn, points, attempt)["series"]
    if as_json:
        write_json({"metrics": shown} | ({"series": curves} if curves else {}))
        return
    if not shown:
        note(_("no metrics yet"))
        return
    write(
        table([_("METRIC"), _("STEP"), _("VALUE"), _("MIN"), _("MAX"), _("POINTS")], map(_row, sorted(shown.items())))
    )
    for name in drawn:
        write(_drawing(name, curves.get(name, [])))


def _check_names(names: tuple[str, ...], found: dict[str, MetricSummary]) -> None:
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
        name,
        latest["step"],
        _number(latest["value"]),
        _number(summary.get("min")),
        _number(summary.get("max")),
        summary.get("count"),
    )


def _number(value: Number | None) -> str | None:
    return f"{value:.6g}" if isinstance(value, float) else None if value is None else str(value)


def _drawing(name: str, parts: list[CurvePart]) -> str:
    """One curve; a later attempt takes over from the step it resumed at."""
    points: dict[int, float] = {}
    for part in sorted(parts, key=lambda part: part["attempt"]):
        if part["step"]:
            points = {step: value for step, value in points.items() if step < part["step"][0]}
        points |= {step: _float(value) for step, value in zip(part["step"], part["value"], strict=False)}
    columns = max(20, min(100, shutil.get_terminal_size().columns - 14))
    drawing = plot(list(points.items()), columns=columns)
    return f"\n{clean(name)}\n{drawing}" if drawing else ""


def _float(value: Number) -> float:
    """`NaN` and the infinities travel as text; any other text counts as no number."""
    try:
        return float(value)
    except ValueError:
        return float("nan")
