"""`tp server add`."""

from __future__ import annotations

from pathlib import Path

import click

from tuneplane.cli.options import tp_command
from tuneplane.cli.text import note
from tuneplane.client.servers import add_server, list_servers
from tuneplane.i18n import _


@tp_command(
    "tp server add team https://tuneplane.example",
    "tp server add lab https://10.0.0.5 --ca lab-ca.pem --use",
    about=_("Nothing is asked of the console; tp login does that. The first one added is the one in use."),
)
@click.argument("name")
@click.argument("url")
@click.option(
    "--ca",
    "ca_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=_("PEM file of the authority that signed the console's certificate."),
)
@click.option("--use", is_flag=True, help=_("Talk to this one from now on."))
def command(name: str, url: str, ca_file: Path | None, use: bool) -> None:
    server = add_server(name, url, str(ca_file) if ca_file else None, use=use or None)
    _servers, current = list_servers()
    note(_("server {name} is {url}").format(name=server.name, url=server.url))
    if current == server.name:
        note(_("it is the one in use"))
