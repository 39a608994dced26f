"""`tp webhook add`."""

from __future__ import annotations

import click

from tuneplane.cli.alert.places import alerts_of, project_option
from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.text import clean, note, write, write_json
from tuneplane.i18n import _

EVENTS = ("alert.fired", "alert.resolved", "job.failed", "job.succeeded")


@tp_command(
    "tp webhook add https://hooks.example.org/tuneplane",
    "tp webhook add https://hooks.example.org/x --event alert.fired --event job.failed",
    about=_(
        "Prints the secret that signs the messages, which is shown this one time. Messages are as Standard Webhooks has them."
    ),
)
@click.argument("url", metavar="URL")
@click.option("--event", "events", type=click.Choice(EVENTS), multiple=True, help=_("Send only this; may be repeated."))
@click.option("--description", default="", help=_("For people."))
@project_option
@server_option
@json_option
def command(
    url: str, events: tuple[str, ...], description: str, project: str | None, server: str | None, as_json: bool
) -> None:
    with alerts_of(server, project) as (console, place):
        made = console.add_webhook(place, url, description, events)
    if as_json:
        write_json(made)
        return
    note(_("webhook {id}; its secret, shown this once:").format(id=made["webhook"]["id"]))
    write(clean(made["secret"]) + "\n")
