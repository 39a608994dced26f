"""`tp job cancel`."""

from __future__ import annotations

import click

from tuneplane.cli.job.follow import result_line, wait_until_over
from tuneplane.cli.job.ids import full_id
from tuneplane.cli.job.show_text import phase_word
from tuneplane.cli.options import json_option, server_option, tp_command, yes_option
from tuneplane.cli.session import open_console
from tuneplane.cli.text import note, on_terminal, write, write_json
from tuneplane.contract.words import TERMINAL_PHASES
from tuneplane.i18n import _


@tp_command(
    "tp job cancel 06fq9k2mc8v1x3ra",
    "tp job cancel 06fq9k2mc8v1x3ra --yes --wait",
    about=_("The trainer gets its grace time to save a checkpoint. Takes full run ids only; asks first on a terminal."),
)
@click.argument("job", metavar="JOB")
@click.option("--wait", is_flag=True, help=_("Wait until the job is over."))
@yes_option
@server_option
@json_option
def command(job: str, wait: bool, yes: bool, server: str | None, as_json: bool) -> None:
    run = full_id(job)
    with open_console(server) as console:
        if not yes:
            found = console.job(run)
            if found["phase"] not in TERMINAL_PHASES:
                _confirm(run, found["experiment"], phase_word(found["phase"]))
        answer = console.cancel(run)
        if wait:
            answer = wait_until_over(console, run)
    if as_json:
        write_json(answer)
    elif answer["phase"] in TERMINAL_PHASES:
        write(result_line(answer) + "\n")
    else:
        note(_("{run} is asked to stop; tp job wait {run} waits for it").format(run=run))


def _confirm(run: str, experiment: str, phase: str) -> None:
    if not on_terminal():
        raise click.UsageError(_("cancelling needs --yes when nobody can be asked"))
    question = _("Cancel {run} ({experiment}, {phase})?").format(run=run, experiment=experiment, phase=phase)
    click.confirm(question, abort=True, err=True)
