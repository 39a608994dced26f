"""`tp submit`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from tuneplane.cli.exits import OK
from tuneplane.cli.job_options import job_options
from tuneplane.cli.options import experiment_argument, json_option, server_option, tp_command, yes_option
from tuneplane.cli.session import chosen_experiment, console_for
from tuneplane.cli.submission import Draft, ask_admission, draft, packed, send, shape
from tuneplane.cli.text import note, on_terminal, write, write_json
from tuneplane.client.errors import ConsoleError
from tuneplane.client.http import Console
from tuneplane.client.servers import choose
from tuneplane.client.types import Job
from tuneplane.contract.refusals import RefusedError
from tuneplane.i18n import _, ngettext
from tuneplane.lab.find import find_lab
from tuneplane.lab.plan import PackagePlan, show_size

ASK_ABOVE_BYTES = 50_000_000
SHOWN_EXCLUDED = 5

Done = Callable[[Console, str], int]


@tp_command(
    "tp submit first --profile cpu --follow",
    "tp submit first --profile h200:8 --model hf:Qwen/Qwen3-0.6B --set learning_rate=1e-4",
    "tp submit first --profile h200:8 --dry-run",
    about=_(
        "Checks the experiment, packs the lab, and sends both. Every reason against it is said at once."
        " The lab is not changed. Inside an experiment its name may be left out."
    ),
)
@experiment_argument
@job_options()
@click.option("--dry-run", is_flag=True, help=_("Show what would be sent and started; change nothing."))
@click.option("--wait", is_flag=True, help=_("Wait until the job is over; the exit code is its result."))
@click.option("--follow", "-f", is_flag=True, help=_("As --wait, and show its output."))
@yes_option
@server_option
@json_option
def command(experiment: str | None, **given: Any) -> int | None:
    lab = find_lab()
    return submit_draft(draft(lab, chosen_experiment(lab, experiment), given), given)


def submit_draft(made: Draft, given: dict[str, Any], done: Done | None = None) -> int | None:
    """Send the draft, or show it with `--dry-run`; wait where that is asked for. `done` is called when the job that was waited for has
    succeeded, in place of what is said then, and gives the exit code.
    """
    if given["dry_run"]:
        from tuneplane.cli.dry_run import dry_run

        dry_run(made, given, given["server"], as_json=given["as_json"])
        return None
    with _console(made, given) as console:
        job = _submit(console, made, given)
        return _after(console, job, given, done)


@contextmanager
def _console(made: Draft, given: dict[str, Any]) -> Iterator[Console]:
    """The console to submit to, the pools shaped by its hardware. Without one, what is wrong here still comes first."""
    try:
        console = console_for(choose(given["server"]))
        with console:
            shape(made, given, console.hardware())
            yield console
    except ConsoleError:
        if made.pools is None:
            shape(made, given, None)
        if made.refusals:
            raise RefusedError(made.refusals) from None
        raise


def _submit(console: Console, made: Draft, given: dict[str, Any]) -> Job:
    if made.refusals:
        ask_admission(console, made)
        raise RefusedError(made.refusals)
    assert made.plan is not None
    if not given["as_json"]:
        _say_package(made.plan)
    if made.plan.size > ASK_ABOVE_BYTES and not given["yes"] and on_terminal():
        click.confirm(_("Send {size}?").format(size=show_size(made.plan.size)), abort=True, err=True)
    with packed(made) as (file, size):
        return send(console, made, file, size)


def _say_package(plan: PackagePlan) -> None:
    """What is about to be sent, and what is not."""
    count = ngettext("package: {count} file, {size}", "package: {count} files, {size}", len(plan.files))
    note(count.format(count=len(plan.files), size=show_size(plan.size)))
    for item in plan.excluded[:SHOWN_EXCLUDED]:
        note(_("  left out: {name} ({reason})").format(name=item.name, reason=item.reason))
    if len(plan.excluded) > SHOWN_EXCLUDED:
        note(_("  left out: {count} more; --dry-run lists them").format(count=len(plan.excluded) - SHOWN_EXCLUDED))


def _after(console: Console, job: Job, given: dict[str, Any], finish: Done | None) -> int | None:
    from tuneplane.cli.job.open import page_of

    as_json, run = given["as_json"], job["id"]
    if not given["wait"] and not given["follow"]:
        if as_json:
            write_json(job)
        else:
            write(f"{run}\n")
            note(page_of(console.server, run))
            note(_("follow it with: tp job logs {run} -f").format(run=run))
        return None
    note(f"{run}  {page_of(console.server, run)}")
    return _watch(console, run, given, finish)


def _watch(console: Console, run: str, given: dict[str, Any], finish: Done | None) -> int:
    from tuneplane.cli.job.follow import follow_logs, result_code, result_line, wait_until_over
    from tuneplane.cli.job.log_lines import LogPrinter

    try:
        if given["follow"]:
            follow_logs(console, run, {}, LogPrinter(as_json=given["as_json"]), follow=True)
        done = wait_until_over(console, run)
    except KeyboardInterrupt:
        note(_("the job goes on: tp job logs {run} -f; to stop it: tp job cancel {run}").format(run=run))
        raise
    if finish is not None and result_code(done) == OK:
        return finish(console, run)
    if given["as_json"]:
        write_json(done)
    else:
        write(result_line(done) + "\n")
    return result_code(done)
