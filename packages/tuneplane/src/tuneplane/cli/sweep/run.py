"""`tp sweep run`, which is also `tp sweep EXPERIMENT`."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from tuneplane.cli.job_options import job_options
from tuneplane.cli.options import WholeNumber, experiment_argument, json_option, server_option, tp_command, yes_option
from tuneplane.cli.session import chosen_experiment, sweeps_for
from tuneplane.cli.submission import Draft, bring, draft, packed, shape
from tuneplane.cli.sweep.request import Wanted, ask_console, request_of, wanted
from tuneplane.cli.text import note, on_terminal, write, write_json
from tuneplane.client.errors import ConsoleError
from tuneplane.client.servers import choose
from tuneplane.client.sweeps import Sweep, SweepConsole
from tuneplane.contract.refusals import RefusedError
from tuneplane.i18n import _, ngettext
from tuneplane.lab.find import find_lab
from tuneplane.sweeps.check import trials_of

ASK_ABOVE_TRIALS = 20
AXIS = "NAME=VALUES"


@tp_command(
    "tp sweep first --grid learning_rate=1e-5,2e-5 --grid lora_r=8,16 --profile cpu",
    "tp sweep run first --random learning_rate=log:1e-6..1e-4 --trials 20 --seed 7 --profile h200:8",
    "tp sweep first --bayes learning_rate=log:1e-6..1e-4 --early-stop 50:3 --profile h200:8 --wait",
    about=_(
        "Runs an experiment many times with other parameters. Values are a list (8,16) or a range (4..64, log:1e-6..1e-4); env.NAME "
        "varies an environment variable. Without any of these options sweep.yaml of the experiment says what varies. All trials are "
        "checked and admitted together."
    ),
)
@experiment_argument
@click.option("--grid", multiple=True, metavar=AXIS, help=_("Every combination of these values."))
@click.option("--random", multiple=True, metavar=AXIS, help=_("Values chosen at random."))
@click.option("--bayes", multiple=True, metavar=AXIS, help=_("Values chosen by what earlier trials came to."))
@click.option("--asha", multiple=True, metavar=AXIS, help=_("As --random; most trials are stopped early."))
@click.option("--trials", type=WholeNumber(1), default=None, help=_("How many; 20 when it is not said."))
@click.option("--seed", type=WholeNumber(0, 2**31 - 1), default=None, help=_("The same seed chooses the same values."))
@click.option("--max-parallel", type=WholeNumber(1, 100), default=None, help=_("At most so many at once."))
@click.option("--objective", default=None, metavar="METRIC:min|max", help=_("Instead of the method's main metric."))
@click.option(
    "--early-stop",
    default=None,
    metavar="STEPS[:FACTOR]",
    help=_("At STEPS, STEPS·FACTOR, … only the best 1/FACTOR go on."),
)
@job_options()
@click.option("--dry-run", is_flag=True, help=_("List the variants and what the console says; change nothing."))
@click.option("--wait", is_flag=True, help=_("Wait until the sweep is over; the exit code says how."))
@yes_option
@server_option
@json_option
def command(experiment: str | None, **given: Any) -> int | None:
    lab = find_lab()
    made = draft(lab, chosen_experiment(lab, experiment), given)
    found = wanted(made, given)
    if given["dry_run"]:
        from tuneplane.cli.sweep.dry_run import dry_run

        dry_run(made, found, given)
        return None
    with _console(made, given) as console:
        sweep = _create(console, made, found, given)
        return _after(console, sweep, given)


@contextmanager
def _console(made: Draft, given: dict[str, Any]) -> Iterator[SweepConsole]:
    """The console, the pools shaped by its hardware. Without one, what is wrong here still comes first."""
    try:
        with sweeps_for(choose(given["server"])) as console:
            shape(made, given, console.hardware())
            yield console
    except ConsoleError:
        if made.pools is None:
            shape(made, given, None)
        if made.refusals:
            raise RefusedError(made.refusals) from None
        raise


def _create(console: SweepConsole, made: Draft, found: Wanted, given: dict[str, Any]) -> Sweep:
    if made.refusals:
        ask_console(console, made, found)
        raise RefusedError(made.refusals)
    assert found.sweep is not None
    trials = trials_of(found.sweep)
    if trials > ASK_ABOVE_TRIALS and not given["yes"] and on_terminal():
        click.confirm(_("Run {count} trials?").format(count=trials), abort=True, err=True)
    with packed(made) as (file, size):
        bring(console, made, file, size, lambda at, draft: ask_console(at, draft, found))
        request = request_of(made, found)
        assert request is not None
        try:
            return console.create_sweep(request, secrets.token_hex(16))
        except RefusedError as error:
            raise RefusedError([found.place(refusal) for refusal in error.refusals]) from None


def _after(console: SweepConsole, sweep: Sweep, given: dict[str, Any]) -> int | None:
    page = f"{console.server}/sweeps/{sweep['id']}"
    if given["wait"]:
        from tuneplane.cli.sweep.waiting import wait_for

        note(f"{sweep['id']}  {page}")
        return wait_for(console, sweep["id"], as_json=given["as_json"])
    if given["as_json"]:
        write_json(sweep)
        return None
    write(f"{sweep['id']}\n")
    count = ngettext("{count} trial, at most {most} at once", "{count} trials, at most {most} at once", sweep["total"])
    note(count.format(count=sweep["total"], most=sweep.get("max_parallel", "?")))
    note(page)
    note(_("look at it with: tp sweep show {id}").format(id=sweep["id"]))
    return None
