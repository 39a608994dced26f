"""`tp webhook rm`."""

from __future__ import annotations

import click

from tuneplane.cli.admin.asking import confirm
from tuneplane.cli.alert.places import alerts_of, project_option
from tuneplane.cli.options import server_option, tp_command, yes_option
from tuneplane.cli.text import write
from tuneplane.i18n import _


@tp_command("tp webhook rm 06fq9k2mc8v1x3ra", about=_("What was not sent yet is not sent any more."))
@click.argument("webhook", metavar="ID")
@project_option
@server_option
@yes_option
def command(webhook: str, project: str | None, server: str | None, yes: bool) -> None:
    with alerts_of(server, project) as (console, place):
        confirm(_("Remove the webhook {id} of {project}?").format(id=webhook, project=place), yes=yes)
        console.remove_webhook(place, webhook)
    write(_("the webhook {id} is gone").format(id=webhook) + "\n")
