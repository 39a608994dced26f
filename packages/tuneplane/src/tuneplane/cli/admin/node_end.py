"""`tp admin node end`."""

from __future__ import annotations

import click

from tuneplane.cli.admin.asking import confirm
from tuneplane.cli.options import json_option, server_option, tp_command, yes_option
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp admin node end gpu-1 06dqdpn8s8ff4as2",
    "tp admin node end gpu-1 06dqdpn8s8ff4as2 --attempt 2 --yes",
    about=_(
        "For what tp admin node show lists under LEFT: it was launched under another node id, as of before the state directory of the machine was lost. What the console gave up there it ends by itself. Refused while the run holds something."
    ),
)
@click.argument("node", metavar="NODE")
@click.argument("run", metavar="RUN")
@click.option("--attempt", type=click.IntRange(1), default=1, show_default=True, help=_("Which attempt of the run."))
@yes_option
@server_option
@json_option
def command(node: str, run: str, attempt: int, yes: bool, server: str | None, as_json: bool) -> None:
    with open_administration(server) as console:
        question = _("End what {node} still runs of {run} (attempt {attempt})?")
        confirm(question.format(node=node, run=run, attempt=attempt), yes=yes)
        told = console.end_left_job(node, run, attempt)
    if as_json:
        write_json(told)
        return
    write(_("{node} is told to end it").format(node=told["name"]) + "\n")
