"""`tp admin node cordon`."""

from __future__ import annotations

import click

from tuneplane.cli.admin.asking import confirm
from tuneplane.cli.options import json_option, server_option, tp_command, yes_option
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp admin node cordon gpu-1",
    "tp admin node cordon gpu-1 --yes",
    about=_("Nothing new begins there; what runs goes on. tp admin node uncordon takes it back."),
)
@click.argument("node", metavar="NODE")
@yes_option
@server_option
@json_option
def command(node: str, yes: bool, server: str | None, as_json: bool) -> None:
    with open_administration(server) as console:
        confirm(_("Start nothing new on {node}?").format(node=node), yes=yes)
        changed = console.change_node(node, "cordon")
    if as_json:
        write_json(changed)
        return
    write(_("nothing new begins on {node} any more").format(node=changed["name"]) + "\n")
