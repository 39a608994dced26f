"""`tp job logs`: one page after the other, and with -f the lines as they come."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from tuneplane.cli.job.follow import follow_logs
from tuneplane.cli.job.ids import find_job
from tuneplane.cli.job.log_lines import LogPrinter
from tuneplane.cli.options import WholeNumber, job_argument, json_option, server_option, tp_command
from tuneplane.cli.session import open_console
from tuneplane.client.http import Console
from tuneplane.contract.words import TERMINAL_PHASES
from tuneplane.i18n import _

_SPAN = re.compile(r"(\d{1,6})\s*(s|min|m|h|d)\Z", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}


@tp_command(
    "tp job logs 06fq9k2m -f",
    "tp job logs 06fq9k2m --tail 100 --grep loss",
    "tp job logs 06fq9k2m --level error -C 5",
    "tp job logs 06fq9k2m --since 10m --no-follow",
    "tp job logs 06fq9k2m --raw --rank 1 > rank1.log",
    about=_("Follows by default while the job runs and a terminal shows the output. JOB is a run id or its beginning."),
)
@job_argument
@click.option("--follow/--no-follow", "-f", default=None, help=_("Wait for more, or stop at what is there."))
@click.option("--tail", type=WholeNumber(0, 20_000), default=None, help=_("Begin with the last lines."))
@click.option("--grep", default=None, metavar="TEXT", help=_("Only lines that hold this text."))
@click.option("--context", "-C", type=WholeNumber(0, 50), default=None, help=_("Lines around each that was found."))
@click.option(
    "--level",
    type=click.Choice(("error", "warning", "info", "debug")),
    default=None,
    help=_("Only lines so grave or graver, with their tracebacks."),
)
@click.option(
    "--stream", "fd", type=click.Choice(("stdout", "stderr", "runner")), default=None, help=_("Only of this.")
)
@click.option("--since", default=None, metavar="TIME", help=_("Not older: 90s, 10m, 2h, 1d, or an ISO 8601 time."))
@click.option("--attempt", type=WholeNumber(1), default=None, help=_("Of this attempt."))
@click.option("--rank", type=WholeNumber(0), default=None, help=_("Of this machine."))
@click.option("--raw", is_flag=True, help=_("The bytes as they came, of one attempt and machine, to standard output."))
@click.option("--timestamps", "-t", is_flag=True, help=_("Show the time of every line."))
@server_option
@json_option
def command(
    job: str,
    follow: bool | None,
    since: str | None,
    raw: bool,
    timestamps: bool,
    server: str | None,
    as_json: bool,
    **filters: Any,
) -> None:
    query = filters | {"since": parse_since(since, datetime.now(UTC)) if since else None}
    if raw:
        _check_raw(query, follow=follow, timestamps=timestamps, as_json=as_json)
    printer = LogPrinter(timestamps=timestamps, as_json=as_json)
    with open_console(server) as console:
        run = find_job(console, job)
        if raw:
            _write_raw(console, run, {name: query[name] for name in ("attempt", "rank", "fd")})
            return
        if follow is None:
            follow = sys.stdout.isatty() and console.job(run)["phase"] not in TERMINAL_PHASES
        follow_logs(console, run, query, printer, follow=follow)


def _check_raw(query: dict[str, Any], **options: bool | None) -> None:
    """Raw bytes are one machine's, as a whole: what chooses among lines has no meaning for them."""
    chosen = [name for name in ("tail", "grep", "context", "level", "since") if query[name] is not None]
    chosen += [name.replace("as_", "") for name, wanted in options.items() if wanted]
    if chosen:
        raise click.UsageError(
            _("--raw goes with --attempt, --rank and --stream, not with --{option}").format(option=chosen[0])
        )


def _write_raw(console: Console, run: str, query: dict[str, Any]) -> None:
    with console.streamed(run, "logs/raw", query) as answer:
        for chunk in answer.iter_bytes():
            sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def parse_since(text: str, now: datetime) -> str:
    """An ISO 8601 time in UTC for `10m` or a time as typed; raises `click.BadParameter`."""
    span = _SPAN.match(text.strip())
    if span:
        found = now - timedelta(**{_UNITS[span[2]]: int(span[1])})
    else:
        try:
            found = datetime.fromisoformat(text.strip())
        except ValueError:
            raise click.BadParameter(_("write 90s, 10m, 2h, 1d or an ISO 8601 time"), param_hint="--since") from None
    try:
        return found.astimezone(UTC).isoformat()
    except (OverflowError, ValueError):
        raise click.BadParameter(_("the time is out of range"), param_hint="--since") from None
