"""`tp job resume`."""

from __future__ import annotations

from uuid import uuid4

import click

from tuneplane.cli.job.follow_up import after, follow_up_options
from tuneplane.cli.job.ids import find_job
from tuneplane.cli.job.show_text import checkpoint_text
from tuneplane.cli.options import WholeNumber, job_argument, json_option, server_option, tp_command
from tuneplane.cli.session import open_console
from tuneplane.cli.text import note, write_json
from tuneplane.client.types import Job
from tuneplane.i18n import _


@tp_command(
    "tp job resume 06fq9k2m",
    "tp job resume 06fq9k2m --from-step 200",
    about=_(
        "A paused job goes on as its next attempt. Of a job that is over a new run is made, which goes on where the old one was;"
        " its id is printed. Both start from the newest complete checkpoint. JOB is a run id or its unique beginning."
    ),
)
@job_argument
@click.option(
    "--from-step",
    type=WholeNumber(0),
    default=None,
    help=_("Start from the checkpoint of this step; tp job artifacts shows them."),
)
@follow_up_options
@server_option
@json_option
def command(job: str, from_step: int | None, wait: bool, server: str | None, as_json: bool) -> int | None:
    with open_console(server) as console:
        run = find_job(console, job)
        answer = console.resume(run, str(uuid4()), from_step)
        if answer["id"] != run:
            return after(console, answer, _made(answer), wait=wait, as_json=as_json)
        if wait:
            return after(console, answer, _goes_on(answer), wait=True, as_json=as_json)
    if as_json:
        write_json(answer)
    else:
        note(_goes_on(answer))
    return None


def _goes_on(job: Job) -> str:
    if job["phase"] != "queued":
        return _("{run} goes on as soon as it has stopped: its next attempt then begins at once").format(run=job["id"])
    attempts = job.get("attempts") or []
    start = attempts[-1].get("resumed") if attempts else None
    if start:
        return _("{run} goes on from {checkpoint}").format(run=job["id"], checkpoint=checkpoint_text(start, job["id"]))
    if len(attempts) > 1:
        return _("{run} goes on, from the start: it had saved no complete checkpoint").format(run=job["id"])
    return _("{run} goes on").format(run=job["id"])


def _made(job: Job) -> str:
    origin, attempts = job.get("origin"), job.get("attempts") or []
    start = attempts[0].get("resumed") if attempts else None
    if not start or not origin:  # a console that says less
        return _("a new run was made")
    return _("a new run, which goes on from {checkpoint}").format(checkpoint=checkpoint_text(start, job["id"]))
