"""`tp admin approvals approve`."""

from __future__ import annotations

from tuneplane.cli.job.ids import full_id
from tuneplane.cli.options import job_argument, json_option, server_option, tp_command
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import write, write_json
from tuneplane.i18n import _


@tp_command("tp admin approvals approve 06fq9k2mc8v1x3ra", about=_("Takes full run ids only."))
@job_argument
@server_option
@json_option
def command(job: str, server: str | None, as_json: bool) -> None:
    run = full_id(job)
    with open_administration(server) as console:
        answer = console.approve(run)
    if as_json:
        write_json(answer)
    else:
        write(_("{run} may run now; it waits for its turn").format(run=run) + "\n")
