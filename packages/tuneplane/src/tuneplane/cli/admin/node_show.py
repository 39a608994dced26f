"""`tp admin node show`."""

from __future__ import annotations

import click

from tuneplane.cli.admin.node_text import node_text
from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import write, write_json


@tp_command("tp admin node show gpu-1", "tp admin node show gpu-1 --json")
@click.argument("node", metavar="NODE")
@server_option
@json_option
def command(node: str, server: str | None, as_json: bool) -> None:
    with open_administration(server) as console:
        found = console.node(node)
    if as_json:
        write_json(found)
    else:
        write(node_text(found))
