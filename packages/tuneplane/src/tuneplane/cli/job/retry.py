"""`tp job retry`."""

from __future__ import annotations

from uuid import uuid4

from tuneplane.cli.job.follow_up import after, follow_up_options
from tuneplane.cli.job.ids import find_job
from tuneplane.cli.options import job_argument, json_option, server_option, tp_command
from tuneplane.cli.session import open_console
from tuneplane.i18n import _


@tp_command(
    "tp job retry 06fq9k2m",
    about=_(
        "Makes a new run of the same JobSpec and package, from scratch, and prints its id. What was changed in the lab since is not"
        " in it: that is tp submit. JOB is a run id or its unique beginning."
    ),
)
@job_argument
@follow_up_options
@server_option
@json_option
def command(job: str, wait: bool, server: str | None, as_json: bool) -> int | None:
    with open_console(server) as console:
        run = find_job(console, job)
        answer = console.retry(run, str(uuid4()))
        said = _("a new run, which repeats {run} from scratch").format(run=run)
        return after(console, answer, said, wait=wait, as_json=as_json)
