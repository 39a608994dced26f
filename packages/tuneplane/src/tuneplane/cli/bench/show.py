"""`tp bench show`, and what `tp eval --wait` shows in the end."""

from __future__ import annotations

import click

from tuneplane.cli.bench.text import figures_table, gates_table, head
from tuneplane.cli.exits import FAILED, OK
from tuneplane.cli.job.ids import find_job
from tuneplane.cli.options import WholeNumber, job_argument, json_option, server_option, tp_command
from tuneplane.cli.session import open_evaluations
from tuneplane.cli.text import note, write, write_json
from tuneplane.client.evaluations import EvaluationConsole
from tuneplane.client.http import Console
from tuneplane.i18n import _


@tp_command(
    "tp bench show 06fq9k2m",
    "tp bench show 06fq9k2m --json",
    about=_(
        "The figures of each task with their confidence intervals: value ± half of the interval, over so many rows. Exit code 1 when "
        "the report cannot be used or a gate is not passed."
    ),
)
@job_argument
@click.option("--attempt", type=WholeNumber(1), default=None, help=_("Of this attempt, not of the newest."))
@server_option
@json_option
def command(job: str, attempt: int | None, server: str | None, as_json: bool) -> int:
    with open_evaluations(server) as console:
        return show(console, find_job(console, job), attempt, as_json=as_json)


def show(console: Console, run: str, attempt: int | None = None, *, as_json: bool) -> int:
    """Write the report of a run; the exit code says whether there is one to read."""
    with EvaluationConsole(console.server, console.token, ca_file=console.ca_file) as evaluations:
        found = evaluations.evaluation(run, attempt)
    problem, gates = found["problem"], found.get("gates") or []
    if as_json:
        write_json(found)
    elif problem:
        note(_("the report cannot be used: {why}").format(why=problem["text"]))
        note(f"  → {problem['hint']}" if problem.get("hint") else "")
    else:
        write(f"{head(found)}\n{figures_table(found)}")
        write("\n" + gates_table(gates) if gates else "")
        note(_("± is half of the {percent} % interval").format(percent=f"{100 * (found.get('confidence') or 0):g}"))
    return FAILED if problem or any(gate["state"] != "passed" for gate in gates) else OK
