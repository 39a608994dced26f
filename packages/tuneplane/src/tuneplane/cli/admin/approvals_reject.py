"""`tp admin approvals reject`."""

from __future__ import annotations

import click

from tuneplane.cli.admin.asking import confirm
from tuneplane.cli.job.ids import full_id
from tuneplane.cli.options import job_argument, json_option, server_option, tp_command, yes_option
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp admin approvals reject 06fq9k2mc8v1x3ra --why 'too large before Friday'",
    about=_("The job ends, and its owner reads why. Takes full run ids only."),
)
@job_argument
@click.option("--why", required=True, metavar="TEXT", help=_("The reason, for the owner of the job."))
@yes_option
@server_option
@json_option
def command(job: str, why: str, yes: bool, server: str | None, as_json: bool) -> None:
    run = full_id(job)
    with open_administration(server) as console:
        confirm(_("Reject {run}? It does not come back.").format(run=run), yes=yes)
        answer = console.reject(run, why)
    if as_json:
        write_json(answer)
    else:
        write(_("{run} is rejected").format(run=run) + "\n")
