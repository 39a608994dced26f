"""`tp admin user enable`."""

from __future__ import annotations

import click

from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import write, write_json
from tuneplane.i18n import _


@tp_command("tp admin user enable ada", about=_("With the password and the tokens that they had."))
@click.argument("username", metavar="USER")
@server_option
@json_option
def command(username: str, server: str | None, as_json: bool) -> None:
    with open_administration(server) as console:
        user = console.set_disabled(username, disabled=False)
    if as_json:
        write_json(user)
    else:
        write(_("{user} can sign in again").format(user=user["username"]) + "\n")
