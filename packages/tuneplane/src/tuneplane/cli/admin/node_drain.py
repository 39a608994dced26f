"""`tp admin node drain`."""

from __future__ import annotations

import click

from tuneplane.cli.admin.asking import confirm
from tuneplane.cli.admin.node_text import runs_text
from tuneplane.cli.options import json_option, server_option, tp_command, yes_option
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp admin node drain gpu-1",
    "tp admin node drain gpu-1 --yes",
    about=_("Nothing new begins there, and what runs goes on to its end; tp admin node show says what is left."),
)
@click.argument("node", metavar="NODE")
@yes_option
@server_option
@json_option
def command(node: str, yes: bool, server: str | None, as_json: bool) -> None:
    with open_administration(server) as console:
        confirm(_("Start nothing new on {node} and let its runs end?").format(node=node), yes=yes)
        changed = console.change_node(node, "drain")
    if as_json:
        write_json(changed)
        return
    write(_("nothing new begins on {node} any more").format(node=changed["name"]) + "\n")
    left = [run["job_id"] for run in changed.get("runs") or []]
    if left:
        write(_("still there: {runs}").format(runs=runs_text(left)) + "\n")
    else:
        write(_("nothing runs there") + "\n")
