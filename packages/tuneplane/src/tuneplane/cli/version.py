"""`tp version`."""

from __future__ import annotations

import platform
from typing import Any

from tuneplane import __version__
from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.text import fields, write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp version",
    "tp version --server default",
    about=_("With --server, that console is asked for its version too."),
)
@server_option
@json_option
def command(server: str | None, as_json: bool) -> None:
    from tuneplane.recipes.index import catalog_digest

    value: dict[str, Any] = {
        "client": __version__,
        "python": platform.python_version(),
        "catalog_digest": catalog_digest(),
    }
    if server is not None:
        from tuneplane.cli.session import open_console

        with open_console(server, anonymous=True) as console:
            value["console"] = console.server_info()
    if as_json:
        write_json(value)
        return
    theirs = value.get("console", {})
    write(
        fields(
            [
                (_("client"), value["client"]),
                (_("python"), value["python"]),
                (_("catalog"), value["catalog_digest"]),
                (_("console"), theirs.get("version")),
                (_("console's catalog"), theirs.get("catalog_digest")),
            ]
        )
    )
