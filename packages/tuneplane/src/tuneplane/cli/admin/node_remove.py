"""`tp admin node remove`."""

from __future__ import annotations

import click

from tuneplane.cli.admin.asking import confirm
from tuneplane.cli.admin.node_text import runs_text
from tuneplane.cli.options import json_option, server_option, tp_command, yes_option
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import write, write_json
from tuneplane.client.admin import Node
from tuneplane.i18n import _


@tp_command(
    "tp admin node remove gpu-1",
    "tp admin node remove gpu-1 --force --yes",
    about=_(
        "Refused while runs hold something there. With --force they are given up there, and what is left of them is ended should the machine come back."
    ),
)
@click.argument("node", metavar="NODE")
@click.option("--force", is_flag=True, help=_("Remove it although runs are there."))
@yes_option
@server_option
@json_option
def command(node: str, force: bool, yes: bool, server: str | None, as_json: bool) -> None:
    with open_administration(server) as console:
        before = console.node(node)
        confirm(_question(before, force=force), yes=yes)
        removed = console.remove_node(node, force=force)
    if as_json:
        write_json(removed)
        return
    write(_("{node} is removed; you can stop its tuneplane-node").format(node=removed["name"]) + "\n")


def _question(node: Node, *, force: bool) -> str:
    runs = [run["job_id"] for run in node.get("runs") or []]
    if runs and force:
        return _("Remove {node} and give up the runs there ({runs})?").format(node=node["name"], runs=runs_text(runs))
    return _("Remove {node} from this console?").format(node=node["name"])
