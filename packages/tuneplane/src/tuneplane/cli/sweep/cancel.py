"""`tp sweep cancel`."""

from __future__ import annotations

import click

from tuneplane.cli.admin.asking import confirm
from tuneplane.cli.options import json_option, server_option, tp_command, yes_option
from tuneplane.cli.session import open_sweeps
from tuneplane.cli.sweep.ids import full_sweep_id
from tuneplane.cli.sweep.text import OVER, progress
from tuneplane.cli.text import note, write_json
from tuneplane.i18n import _


@tp_command(
    "tp sweep cancel 06fq9k2mc8v1x3ra",
    about=_(
        "No more trials are begun, and those at work get their grace time to save a checkpoint. Takes full ids only."
    ),
)
@click.argument("sweep", metavar="SWEEP")
@yes_option
@server_option
@json_option
def command(sweep: str, yes: bool, server: str | None, as_json: bool) -> None:
    wanted = full_sweep_id(sweep)
    with open_sweeps(server) as console:
        if not yes:
            found = console.sweep(wanted)
            if found["state"] not in OVER:
                question = _("Cancel the sweep {id} ({progress})?")
                confirm(question.format(id=wanted, progress=progress(found)), yes=yes)
        answer = console.cancel_sweep(wanted)
    if as_json:
        write_json(answer)
    else:
        note(_("{id} begins no more trials; tp sweep show {id} shows those that are being stopped").format(id=wanted))
