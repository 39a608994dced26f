"""`tp job wait`: its exit code is the job's result."""

from __future__ import annotations

import click

from tuneplane.cli.job.follow import result_code, result_line, wait_until_over
from tuneplane.cli.job.ids import find_job
from tuneplane.cli.job.wait_words import Teller, why_now
from tuneplane.cli.options import Number, job_argument, json_option, server_option, tp_command
from tuneplane.cli.session import open_console
from tuneplane.cli.text import note, write, write_json
from tuneplane.contract.words import TERMINAL_PHASES
from tuneplane.i18n import _


@tp_command(
    "tp job wait 06fq9k2m",
    "tp job wait 06fq9k2m --timeout 3600 --json",
    about=_(
        "Says why it waits, whenever that changes. Exit code 0 when the job succeeded, 1 when it ended otherwise or did not end in time."
    ),
)
@job_argument
@click.option("--timeout", type=Number(min=0), default=None, metavar="SECONDS", help=_("Wait no longer."))
@server_option
@json_option
def command(job: str, timeout: float | None, server: str | None, as_json: bool) -> int:
    with open_console(server) as console:
        run = find_job(console, job)
        found = wait_until_over(console, run, timeout=timeout, on_look=None if as_json else Teller())
    if as_json:
        write_json(found)
    elif found["phase"] in TERMINAL_PHASES:
        write(result_line(found) + "\n")
    else:
        note(_("{run} is still {phase}").format(run=run, phase=why_now(found)))
    return result_code(found)
