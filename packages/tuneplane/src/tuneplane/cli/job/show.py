"""`tp job show`."""

from __future__ import annotations

from itertools import islice

import click

from tuneplane.cli.hardware_text import run_text
from tuneplane.cli.job.ids import find_job
from tuneplane.cli.job.next_steps import next_steps
from tuneplane.cli.job.show_attempts import attempts_text
from tuneplane.cli.job.show_text import local_time, phase_word, pools_text, reason_text, run_time, runs_in, state_word
from tuneplane.cli.job.show_waiting import conditions, waiting_text
from tuneplane.cli.options import job_argument, json_option, server_option, tp_command
from tuneplane.cli.session import open_console
from tuneplane.cli.text import clean, fields, table, write, write_json
from tuneplane.client.errors import NotFoundError
from tuneplane.client.http import Console
from tuneplane.client.types import Job, JobEvent, LatestFigures
from tuneplane.i18n import _

MAX_EVENTS = 200
MAX_DETAIL_LINES = 10


@tp_command(
    "tp job show 06fq9k2m",
    "tp job show 06fq9k2mc8v1x3ra --events",
    about=_("Says why it waits or failed, and what to type next. JOB is a run id or its unique beginning."),
)
@job_argument
@click.option("--events", is_flag=True, help=_("Also what happened to it, step by step."))
@server_option
@json_option
def command(job: str, events: bool, server: str | None, as_json: bool) -> None:
    with open_console(server) as console:
        found = console.job(find_job(console, job))
        hardware = _hardware(console, found)
        history = list(islice(console.iterate_events(found["id"]), MAX_EVENTS)) if events else []
    if as_json:
        write_json({**found, "events": history} if events else found)
        return
    write(_summary(found))
    write(_why(found))
    write(attempts_text(found))
    write(_latest(found))
    write(run_text(hardware))
    write(_next(found))
    write(_history(history))


def _hardware(console: Console, job: Job) -> list[LatestFigures]:
    """Of a run that runs; empty when the console is too old to measure it."""
    if job["phase"] != "running":
        return []
    try:
        return console.job_hardware(job["id"])["latest"]
    except NotFoundError:
        return []


def _summary(job: Job) -> str:
    recipe = job.get("recipe")
    spec = (job.get("spec") or {}).get("spec") or {}
    return fields(
        [
            (_("run"), job["id"]),
            (_("name"), job.get("display_name")),
            (_("experiment"), f"@{job.get('owner', '?')}/{job['project']} · {job['experiment']}"),
            (_("method"), f"{recipe['name']} {recipe['version']}" if recipe else None),
            (_("phase"), state_word(job)),
            (_("pools"), pools_text(job)),
            (_("machines"), clean(", ".join(job.get("nodes") or [])) or None),
            (_("runs in"), runs_in(job)),
            (_("model"), (spec.get("model") or {}).get("base")),
            (_("sweep"), _sweep(job)),
            (_("follows"), _origin(job)),
            (_("followed by"), _followers(job)),
            (_("created"), local_time(job.get("created_at"))),
            (_("started"), local_time(job.get("started_at"))),
            (_("finished"), local_time(job.get("finished_at"))),
            (_("time"), run_time(job) if job.get("started_at") and job["phase"] != "queued" else None),
            (_("cleanup"), _("pending") if job.get("cleanup") == "pending" else None),
        ]
    )


def _sweep(job: Job) -> str | None:
    """The sweep that it is a trial of."""
    link = job.get("sweep")
    if not link:
        return None
    name = link.get("name")
    shown = f"{link['id']} ({clean(name)})" if name else link["id"]
    return _("{sweep}, trial {number}").format(sweep=shown, number=link["trial"])


def _origin(job: Job) -> str | None:
    """The run that it follows."""
    link = job.get("origin")
    if not link:
        return None
    texts = {"resume": _("{run}, from a checkpoint of it"), "export": _("{run}, whose checkpoint it exports")}
    return texts.get(link["kind"], _("{run}, from scratch")).format(run=link["id"])


def _followers(job: Job) -> str:
    """The runs that follow it."""
    return ", ".join(f"{link['id']} ({phase_word(link.get('phase', '?'))})" for link in job.get("followers") or [])


def _why(job: Job) -> str:
    """Everything that explains the phase: what it waits for, conditions, the reason it ended."""
    lines = conditions(job)
    reason = job.get("reason")
    if reason:
        lines.append(_("reason: {text}").format(text=clean(reason_text(reason))))
        lines += [f"  {clean(line)}" for line in (reason.get("detail") or "").splitlines()[:MAX_DETAIL_LINES]]
        if reason.get("hint"):
            lines.append(f"  → {clean(reason['hint'])}")
    text = waiting_text(job) + "".join(f"{line}\n" for line in lines)
    return f"\n{text}" if text else ""


def _next(job: Job) -> str:
    """What to type next."""
    steps = next_steps(job)
    return "\n" + _("next") + "\n" + "".join(f"  {line}\n" for line in fields(steps).splitlines()) if steps else ""


def _latest(job: Job) -> str:
    latest = job.get("latest") or {}
    rows = [(name, item["step"], item["value"]) for name, item in sorted(latest.items())]
    return "\n" + table([_("METRIC"), _("STEP"), _("VALUE")], rows) if rows else ""


def _history(events: list[JobEvent]) -> str:
    rows = [(local_time(event["time"]), event["kind"], event.get("text") or _change(event)) for event in events]
    return "\n" + table([_("WHEN"), _("EVENT"), ""], rows) if rows else ""


def _change(event: JobEvent) -> str:
    before, after = event.get("from"), event.get("to")
    return f"{before or '-'} → {after}" if after else ""
