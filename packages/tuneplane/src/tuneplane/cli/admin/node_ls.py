"""`tp admin node ls`."""

from __future__ import annotations

from tuneplane.cli.admin.node_text import nodes_text
from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import note, write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp admin node ls",
    "tp admin node ls --json",
    about=_("Cards are shown as held / all. Below the list: what is wrong with a node, and what to do."),
)
@server_option
@json_option
def command(server: str | None, as_json: bool) -> None:
    with open_administration(server) as console:
        found = console.nodes()
    if as_json:
        write_json(found)
        return
    refused = found.get("refused") or []
    if not found["items"] and not refused:
        note(
            _("no node has joined yet: start tuneplane-node serve on a machine, with this console's address and token")
        )
        return
    write(nodes_text(found["items"], refused))
