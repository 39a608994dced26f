"""What is said of a run that was made from an earlier one: its id for scripts, where to look for people."""

from __future__ import annotations

import click

from tuneplane.cli.job.follow import result_code, result_line, wait_until_over
from tuneplane.cli.job.open import page_of
from tuneplane.cli.text import note, write, write_json
from tuneplane.client.http import Console
from tuneplane.client.types import Job
from tuneplane.i18n import _

follow_up_options = click.option("--wait", is_flag=True, help=_("Wait for its end; the exit code is its result."))


def after(console: Console, job: Job, said: str, *, wait: bool, as_json: bool) -> int | None:
    """Show the run `job`; with `wait` also how it ends. Returns the exit code of a run that was waited for."""
    run = job["id"]
    if not wait:
        if as_json:
            write_json(job)
        else:
            write(f"{run}\n")
            note(said)
            note(page_of(console.server, run))
            note(_("follow it with: tp job logs {run} -f").format(run=run))
        return None
    note(f"{run}  {said}")
    done = wait_until_over(console, run)
    if as_json:
        write_json(done)
    else:
        write(result_line(done) + "\n")
    return result_code(done)
