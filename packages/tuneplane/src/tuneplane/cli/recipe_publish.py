"""`tp recipe publish`."""

from __future__ import annotations

from pathlib import Path

import click

from tuneplane.cli.admin.asking import confirm
from tuneplane.cli.options import json_option, server_option, tp_command, yes_option
from tuneplane.cli.text import table, write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp recipe publish recipes",
    about=_(
        "For administrators. Checks DIR as tp recipe compile does and sends it to the console, where it replaces the recipes"
        " that were published before, all or none of them."
    ),
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@yes_option
@server_option
@json_option
def command(directory: Path, yes: bool, server: str | None, as_json: bool) -> None:
    from tuneplane.cli.session import open_administration
    from tuneplane.recipes.index import built_in_index
    from tuneplane.recipes.organisation import compile_directory
    from tuneplane.recipes.recipe_files import read_files

    directory = directory.absolute()
    found = compile_directory(built_in_index(), directory)
    with open_administration(server) as console:
        confirm(_("Replace the organisation's recipes on {server}?").format(server=console.server), yes=yes)
        offered = console.publish_recipes(read_files(directory))["methods"]
    items = [{"name": name, **offered[name]} for name in sorted(found["methods"])]
    if as_json:
        write_json({"items": items})
        return
    write(
        table(
            [_("METHOD"), _("VERSION"), _("DIGEST")],
            [(item["name"], item["version"], item["digest"]) for item in items],
        )
    )
