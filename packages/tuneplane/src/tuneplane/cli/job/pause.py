"""`tp job pause`."""

from __future__ import annotations

from tuneplane.cli.job.ids import find_job
from tuneplane.cli.options import job_argument, json_option, server_option, tp_command
from tuneplane.cli.session import open_console
from tuneplane.cli.text import note, write_json
from tuneplane.client.types import Job
from tuneplane.i18n import _


@tp_command(
    "tp job pause 06fq9k2m",
    about=_(
        "A running job gets SIGTERM and its grace time to save a checkpoint, frees its GPUs and waits until tp job resume;"
        " a queued one is held back. JOB is a run id or its unique beginning."
    ),
)
@job_argument
@server_option
@json_option
def command(job: str, server: str | None, as_json: bool) -> None:
    with open_console(server) as console:
        answer = console.pause(find_job(console, job))
    if as_json:
        write_json(answer)
    else:
        note(_said(answer))


def _said(job: Job) -> str:
    if job["phase"] == "queued":
        return _("{run} is paused; tp job resume {run} lets it go on").format(run=job["id"])
    return _("{run} is told to stop and then waits; tp job resume {run} lets it go on").format(run=job["id"])
