"""`tp recipe fetch`."""

from __future__ import annotations

from pathlib import Path

import click

from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.text import note, write, write_json
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _


@tp_command(
    "tp recipe fetch recipes",
    about=_(
        "Writes the recipes that were published on the console into the new directory DIR."
        " TUNEPLANE_RECIPE_PATH=DIR then brings them into tp."
    ),
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@server_option
@json_option
def command(directory: Path, server: str | None, as_json: bool) -> None:
    from tuneplane.cli.session import open_console
    from tuneplane.recipes.index import RECIPE_PATH_VARIABLE
    from tuneplane.recipes.recipe_files import write_files

    directory = directory.absolute()
    if directory.exists():
        message = _("{path} is there already").format(path=directory)
        raise RefusedError([Refusal("conflict", message, _("name a directory that does not exist yet"))])
    with open_console(server) as console:
        files = console.organisation_recipes()
    if not files:
        message = _("no recipes of an organisation were published on {server}").format(server=console.server)
        raise RefusedError([Refusal("not-found", message)])
    write_files(directory, files)
    if as_json:
        write_json({"directory": str(directory), "items": [{"name": name} for name in sorted(files)]})
        return
    for name in sorted(files):
        write(f"{name}\n")
    note(
        _("name it in the environment: export {variable}={path}").format(variable=RECIPE_PATH_VARIABLE, path=directory)
    )
