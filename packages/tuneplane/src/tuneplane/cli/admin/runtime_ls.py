"""`tp admin runtime ls`."""

from __future__ import annotations

from tuneplane.cli.admin.runtime_text import runtimes_text
from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp admin runtime ls",
    "tp admin runtime ls --json",
    about=_("FORMS is what the registry file has; the console runs the form that is named above the list."),
)
@server_option
@json_option
def command(server: str | None, as_json: bool) -> None:
    with open_administration(server) as console:
        found = console.runtimes()
    if as_json:
        write_json(found)
        return
    write(runtimes_text(found))
