"""`tp webhook test`."""

from __future__ import annotations

import click

from tuneplane.cli.alert.places import alerts_of, project_option
from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.text import write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp webhook test 06fq9k2mc8v1x3ra",
    about=_("Sends test.ping in a moment, signed like everything else; tp webhook log says how it went."),
)
@click.argument("webhook", metavar="ID")
@project_option
@server_option
@json_option
def command(webhook: str, project: str | None, server: str | None, as_json: bool) -> None:
    with alerts_of(server, project) as (console, place):
        delivery = console.test_webhook(place, webhook)
    if as_json:
        write_json(delivery)
    else:
        write(_("test.ping is on its way; tp webhook log {id} says how it went").format(id=webhook) + "\n")
