"""`tp admin user disable`."""

from __future__ import annotations

import click

from tuneplane.cli.admin.asking import confirm
from tuneplane.cli.options import json_option, server_option, tp_command, yes_option
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp admin user disable ada",
    "tp admin user disable ada --yes",
    about=_("Their sessions and tokens stop at once. What they run goes on; tp job cancel ends it."),
)
@click.argument("username", metavar="USER")
@yes_option
@server_option
@json_option
def command(username: str, yes: bool, server: str | None, as_json: bool) -> None:
    with open_administration(server) as console:
        confirm(_("Keep {user} out of this console?").format(user=username), yes=yes)
        user = console.set_disabled(username, disabled=True)
    if as_json:
        write_json(user)
    else:
        write(_("{user} cannot sign in any more").format(user=user["username"]) + "\n")
