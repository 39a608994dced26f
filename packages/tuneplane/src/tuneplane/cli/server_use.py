"""`tp server use`."""

from __future__ import annotations

import click

from tuneplane.cli.options import tp_command
from tuneplane.cli.text import note
from tuneplane.client.servers import use_server
from tuneplane.i18n import _


@tp_command("tp server use team")
@click.argument("name")
def command(name: str) -> None:
    server = use_server(name)
    note(_("talking to {name}, {url}").format(name=server.name, url=server.url))
    if server.token is None:
        note(_("not logged in there yet: tp login {name}").format(name=server.name))
