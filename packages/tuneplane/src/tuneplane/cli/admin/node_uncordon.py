"""`tp admin node uncordon`."""

from __future__ import annotations

import click

from tuneplane.cli.admin.node_text import problem_text
from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import note, write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp admin node uncordon gpu-1",
    about=_("The node gets work again. One that was removed joins again as soon as its daemon announces itself."),
)
@click.argument("node", metavar="NODE")
@server_option
@json_option
def command(node: str, server: str | None, as_json: bool) -> None:
    with open_administration(server) as console:
        changed = console.change_node(node, "uncordon")
    if as_json:
        write_json(changed)
        return
    write(_("{node} is used again").format(node=changed["name"]) + "\n")
    problem = changed.get("problem")
    if problem is not None:
        note(_("it gets no work before this is mended:") + "\n" + problem_text(changed["name"], problem).rstrip())
