"""`tp status`: where am I, whom do I talk to, what is running."""

from __future__ import annotations

from itertools import islice
from typing import Any

from tuneplane.cli.hardware_text import machines_text
from tuneplane.cli.job.show_text import age, state_word, why
from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.quota_text import drain_line, use_rows, whose
from tuneplane.cli.session import console_for, lab_or_none
from tuneplane.cli.text import fields, table, write, write_json
from tuneplane.client.errors import NotFoundError
from tuneplane.client.http import Console
from tuneplane.client.servers import Server, choose
from tuneplane.client.types import Job, OwnQuota
from tuneplane.contract.words import TERMINAL_PHASES
from tuneplane.i18n import _
from tuneplane.recipes.index import catalog_digest

SEARCHED_JOBS = 200
SHOWN_JOBS = 20


@tp_command(
    "tp status",
    "tp status --json",
    about=_("Exit code 4 when not logged in, 5 when the console cannot be reached."),
)
@server_option
@json_option
def command(server: str | None, as_json: bool) -> None:
    lab = lab_or_none()
    chosen = choose(server)
    with console_for(chosen) as console:
        value = {
            "lab": {"root": str(lab.root), "project": lab.name} if lab else None,
            **_ask(console, chosen, lab.name if lab else None),
        }
    if as_json:
        write_json(value)
    else:
        _write_text(value)


def _ask(console: Console, server: Server, project: str | None) -> dict[str, Any]:
    info, me = console.server_info(), console.me()
    recent = islice(console.iterate_jobs(project=project, limit=SEARCHED_JOBS), SEARCHED_JOBS)
    return {
        "server": {"name": server.name or None, "url": server.url, **info},
        "username": me["username"],
        "quota": _quota(console, project),
        "machines": _machines(console),
        "same_catalog": info.get("catalog_digest") == catalog_digest(),
        "active": [job for job in recent if job["phase"] not in TERMINAL_PHASES],
    }


def _quota(console: Console, project: str | None) -> OwnQuota | None:
    """None when the console is too old to know quotas."""
    try:
        return console.own_quota(project)
    except NotFoundError:
        return None


def _machines(console: Console) -> list[dict[str, Any]]:
    """Empty when the console is too old to measure them."""
    try:
        return list(console.machines())
    except NotFoundError:
        return []


def _write_quota(quota: OwnQuota) -> None:
    """Maintenance, and every limit with how full it is. Nothing where there is neither."""
    if quota["drain"]["on"]:
        write("\n" + drain_line(quota["drain"]) + "\n")
    rows = [(whose(report), *row) for report in quota["items"] for row in use_rows(report)]
    if rows:
        write("\n" + table([_("QUOTA OF"), "", "", _("USED")], rows))


def _write_text(value: dict[str, Any]) -> None:
    server, lab = value["server"], value["lab"]
    write(
        fields(
            [
                (_("lab"), f"{lab['project']}  {lab['root']}" if lab else _("none here")),
                (_("console"), f"{server['name'] or ''}  {server['url']}  {server['version']}".strip()),
                (_("executor"), server.get("executor")),
                (_("user"), value["username"]),
                (
                    _("catalog"),
                    _("the same on both sides")
                    if value["same_catalog"]
                    else _("differs from the console's; tp recipe diff --with-console says how"),
                ),
            ]
        )
    )
    if value["quota"] is not None:
        _write_quota(value["quota"])
    write(machines_text(value["machines"]))
    active: list[Job] = value["active"]
    if not active:
        write("\n" + _("nothing is running or waiting") + "\n")
        return
    rows = [
        (
            job["id"],
            f"{job['project']}/{job['experiment']}",
            state_word(job),
            age(job.get("created_at")),
            why(job),
        )
        for job in active[:SHOWN_JOBS]
    ]
    write("\n" + table([_("RUN"), _("EXPERIMENT"), _("PHASE"), _("AGE"), ""], rows))
    if len(active) > SHOWN_JOBS:
        write(_("… and {count} more").format(count=len(active) - SHOWN_JOBS) + "\n")
