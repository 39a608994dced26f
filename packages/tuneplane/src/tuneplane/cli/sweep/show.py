"""`tp sweep show`."""

from __future__ import annotations

import click

from tuneplane.cli.options import WholeNumber, json_option, server_option, tp_command
from tuneplane.cli.session import open_sweeps
from tuneplane.cli.sweep.ids import find_sweep
from tuneplane.cli.sweep.text import head, sorted_trials, trial_table
from tuneplane.cli.text import write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp sweep show 06fq9k2m",
    "tp sweep show 06fq9k2m --top 5 --json",
    about=_("The sweep and its trials, the best first. A trial that still runs shows what it reported last."),
)
@click.argument("sweep", metavar="SWEEP")
@click.option("--top", type=WholeNumber(1), default=None, help=_("Only the best of them."))
@server_option
@json_option
def command(sweep: str, top: int | None, server: str | None, as_json: bool) -> None:
    with open_sweeps(server) as console:
        found = console.sweep(find_sweep(console, sweep))
    trials = sorted_trials(found)[:top]
    if as_json:
        write_json({**found, "trials": trials})
    else:
        write(head(found) + ("\n" + trial_table(found, trials) if trials else ""))
