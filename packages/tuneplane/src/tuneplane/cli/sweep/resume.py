"""`tp sweep resume`."""

from __future__ import annotations

import click

from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.session import open_sweeps
from tuneplane.cli.sweep.ids import full_sweep_id
from tuneplane.cli.sweep.text import progress
from tuneplane.cli.text import note, write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp sweep resume 06fq9k2mc8v1x3ra",
    about=_(
        "Goes on with a sweep that was cancelled or stopped: what has not run is run, and what failed is tried again."
    ),
)
@click.argument("sweep", metavar="SWEEP")
@server_option
@json_option
def command(sweep: str, server: str | None, as_json: bool) -> None:
    with open_sweeps(server) as console:
        found = console.resume_sweep(full_sweep_id(sweep))
    if as_json:
        write_json(found)
        return
    write(f"{found['id']}\n")
    note(progress(found))
    note(_("look at it with: tp sweep show {id}").format(id=found["id"]))
