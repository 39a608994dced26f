"""`tp webhook log`."""

from __future__ import annotations

from itertools import islice

import click

from tuneplane.cli.alert.places import alerts_of, project_option
from tuneplane.cli.job.show_text import local_time
from tuneplane.cli.options import WholeNumber, json_option, server_option, tp_command
from tuneplane.cli.text import table, write, write_json
from tuneplane.client.alerts import Delivery
from tuneplane.i18n import _


@tp_command(
    "tp webhook log 06fq9k2mc8v1x3ra",
    "tp webhook log 06fq9k2mc8v1x3ra --limit 100 --json",
    about=_("What was sent to it, the newest first, and how each went. Kept for 30 days."),
)
@click.argument("webhook", metavar="ID")
@click.option("--limit", type=WholeNumber(1), default=20, show_default=True, help=_("How many to show."))
@project_option
@server_option
@json_option
def command(webhook: str, limit: int, project: str | None, server: str | None, as_json: bool) -> None:
    with alerts_of(server, project) as (console, place):
        found = list(islice(console.iterate_deliveries(place, webhook), limit))
    if as_json:
        write_json({"items": found})
        return
    rows = [
        (local_time(item["created_at"]), item["event"], _state(item), len(item["tries"]), _last(item)) for item in found
    ]
    write(table([_("WHEN"), _("EVENT"), _("STATE"), _("TRIES"), _("LAST ANSWER")], rows))


def _state(item: Delivery) -> str:
    words = {"delivered": _("delivered"), "failed": _("given up"), "pending": _("waits")}
    return words.get(item["state"], item["state"])


def _last(item: Delivery) -> str:
    if not item["tries"]:
        return "-"
    last = item["tries"][-1]
    return " ".join(str(part) for part in (last.get("status"), last.get("error")) if part)
