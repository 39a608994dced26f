"""`tp alert rm`."""

from __future__ import annotations

import click

from tuneplane.cli.admin.asking import confirm
from tuneplane.cli.alert.places import alerts_of, project_option
from tuneplane.cli.options import server_option, tp_command, yes_option
from tuneplane.cli.text import write
from tuneplane.i18n import _


@tp_command(
    "tp alert rm loss-high",
    about=_(
        "A rule of the project's own goes; a default that was changed is as it was. Defaults are switched off with set."
    ),
)
@click.argument("name", metavar="NAME")
@project_option
@server_option
@yes_option
def command(name: str, project: str | None, server: str | None, yes: bool) -> None:
    with alerts_of(server, project) as (console, place):
        confirm(_("Remove the rule {name} of {project}?").format(name=name, project=place), yes=yes)
        console.remove_alert(place, name)
    write(_("the rule {name} is gone").format(name=name) + "\n")
