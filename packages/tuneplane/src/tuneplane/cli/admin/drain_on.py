"""`tp admin drain on`."""

from __future__ import annotations

import click

from tuneplane.cli.admin.asking import confirm
from tuneplane.cli.admin.drain_status import write_drain
from tuneplane.cli.options import json_option, server_option, tp_command, yes_option
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import write_json
from tuneplane.i18n import _


@tp_command(
    "tp admin drain on --text 'new disks, back at 18:00 UTC'",
    about=_("Jobs are still accepted and wait. What runs goes on to its end; tp admin drain status says what is left."),
)
@click.option("--text", default="", help=_("Why, for everyone to read."))
@yes_option
@server_option
@json_option
def command(text: str, yes: bool, server: str | None, as_json: bool) -> None:
    with open_administration(server) as console:
        before = console.policy("drain")
        confirm(_("Start nothing new on this console until tp admin drain off?"), yes=yes)
        policy = console.set_policy("drain", {"on": True, "text": text}, before["version"])
    if as_json:
        write_json(policy)
    else:
        write_drain(policy["value"])
