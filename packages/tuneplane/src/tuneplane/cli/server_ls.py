"""`tp server ls`."""

from __future__ import annotations

from tuneplane.cli.options import json_option, tp_command
from tuneplane.cli.text import note, table, write, write_json
from tuneplane.client.servers import list_servers
from tuneplane.i18n import _


@tp_command("tp server ls", "tp server ls --json", about=_("The one in use is marked with *."))
@json_option
def command(as_json: bool) -> None:
    servers, current = list_servers()
    if as_json:
        items = [
            {
                "name": server.name,
                "url": server.url,
                "in_use": server.name == current,
                "logged_in": server.token is not None,
                "username": server.username or None,
            }
            for server in servers
        ]
        write_json({"items": items})
        return
    if not servers:
        note(_("no server is known yet; tp login <address> adds one"))
        return
    rows = [
        (f"{'*' if server.name == current else ' '} {server.name}", server.username or "-", server.url)
        for server in servers
    ]
    write(table(["  " + _("NAME"), _("USER"), _("ADDRESS")], rows))
