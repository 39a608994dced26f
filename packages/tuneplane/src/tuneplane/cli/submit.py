"""`tp submit`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from tuneplane.cli.options import (
    Number,
    WholeNumber,
    experiment_argument,
    json_option,
    server_option,
    tp_command,
    yes_option,
)
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
@click.option(
    "--profile",
    "-p",
    multiple=True,
    metavar="[ROLE,…=]NAME[:GPUS]",
    help=_("Card and how many in all, for example h200:8; cpu for none."),
)
@click.option("--cpus", type=WholeNumber(1, 4096), default=None, help=_("CPUs of each machine."))
@click.option("--memory-gb", type=Number(min=0.1, max=65536), default=None, help=_("Memory of each machine."))
@click.option("--set", "-s", multiple=True, metavar="NAME=VALUE", help=_("A parameter, for this job only."))
@click.option("--model", default=None, metavar="REF", help=_("Base model: hf:owner/name, ms:…, tp:…, a path, run/…"))
@click.option("--init-from", default=None, metavar="REF", help=_("Start from these weights."))
@click.option(
    "--train-data",
    default=None,
    metavar="REF",
    help=_("Training data: owner/name@version, or a path that the machine of the job sees."),
)
@click.option("--validation-data", default=None, metavar="REF", help=_("Validation data, given likewise."))
@click.option("--volume", multiple=True, metavar="OWNER/NAME", help=_("A volume to mount, read-only."))
@click.option("--image", default=None, help=_("Image with a tag or digest, instead of the catalog's."))
@click.option(
    "--observability",
    type=click.Choice(("platform", "external")),
    default=None,
    help=_("Whether the platform or something external draws the curves."),
)
@click.option("--observability-url", default=None, metavar="URL", help=_("Where external curves are."))
@click.option("--env", "-e", multiple=True, metavar="NAME=VALUE", help=_("Environment of the job; readable by all."))
@click.option("--secret", multiple=True, metavar="NAME", help=_("A secret that the console keeps."))
@click.option("--name", default=None, help=_("A name to show for the job."))
@click.option("--label", multiple=True, metavar="NAME=VALUE", help=_("A label."))
@click.option("--priority", type=WholeNumber(-100, 100), default=None, help=_("Higher goes first."))
@click.option("--max-duration", default=None, metavar="TIME", help=_("Stop it after 90s, 30m, 2h, 1d."))
@click.option("--grace", default=None, metavar="TIME", help=_("Between asking it to stop and killing it."))
@click.option("--retries", multiple=True, metavar="CLASS=N", help=_("Further attempts, for example infra=1."))
@click.option("--dry-run", is_flag=True, help=_("Show what would be sent and started; change nothing."))
@click.option("--wait", is_flag=True, help=_("Wait until the job is over; the exit code is its result."))
@click.option("--follow", "-f", is_flag=True, help=_("As --wait, and show its output."))
@yes_option
@server_option
@json_option
def command(experiment: str | None, **given: Any) -> int | None:
    lab = find_lab()
    made = draft(lab, chosen_experiment(lab, experiment), given)
    if given["dry_run"]:
        from tuneplane.cli.dry_run import dry_run

        dry_run(made, given, given["server"], as_json=given["as_json"])
        return None
    with _console(made, given) as console:
        job = _submit(console, made, given)
        return _after(console, job, given)


@contextmanager
def _console(made: Draft, given: dict[str, Any]) -> Iterator[Console]:
    """The console to submit to, the pools shaped by its hardware. Without one, what is wrong here still comes first."""
    try:
        console = console_for(choose(given["server"]))
        with console:
            shape(made, given, list(console.hardware()["profiles"]))
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


def _after(console: Console, job: Job, given: dict[str, Any]) -> int | None:
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
    return _watch(console, run, given)


def _watch(console: Console, run: str, given: dict[str, Any]) -> int:
    from tuneplane.cli.job.follow import follow_logs, result_code, result_line, wait_until_over
    from tuneplane.cli.job.log_lines import LogPrinter

    try:
        if given["follow"]:
            follow_logs(console, run, {}, LogPrinter(as_json=given["as_json"]), follow=True)
        done = wait_until_over(console, run)
    except KeyboardInterrupt:
        note(_("the job goes on: tp job logs {run} -f; to stop it: tp job cancel {run}").format(run=run))
        raise
    if given["as_json"]:
        write_json(done)
    else:
        write(result_line(done) + "\n")
    return result_code(done)
