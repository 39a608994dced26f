"""`tp recipe compile`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tuneplane.cli.options import json_option, tp_command
from tuneplane.cli.text import table, write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp recipe compile recipes",
    about=_(
        "DIR is laid out like the catalog: <framework>/<method>/recipe.yaml beside template/. Makes the same checks as for the"
        " recipes that are built in and shows the digests; writes nothing. TUNEPLANE_RECIPE_PATH=DIR then brings them into tp."
    ),
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@json_option
def command(directory: Path, as_json: bool) -> None:
    from tuneplane.recipes.index import built_in_index
    from tuneplane.recipes.organisation import compile_directory

    # The built-in index alone: a directory that is on the path already would clash with itself.
    found = compile_directory(built_in_index(), directory.absolute())
    items: list[dict[str, Any]] = [
        {
            "name": name,
            "version": entry["manifest"]["version"],
            **{key: entry[key] for key in ("digest", "manifest_digest", "template_digest")},
        }
        for name, entry in sorted(found["methods"].items())
    ]
    if as_json:
        write_json({"directory": str(directory.absolute()), "items": items})
        return
    rows = [(item["name"], item["version"], item["digest"]) for item in items]
    write(table([_("METHOD"), _("VERSION"), _("DIGEST")], rows))
