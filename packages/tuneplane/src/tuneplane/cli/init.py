"""`tp init`."""

from __future__ import annotations

from pathlib import Path

import click

from tuneplane.cli.options import json_option, tp_command
from tuneplane.cli.text import write, write_json
from tuneplane.i18n import _
from tuneplane.lab.create import create_lab


@tp_command(
    "tp init my-lab",
    "tp init . --name post-training",
    about=_("A lab is a directory with the marker tuneplane.yaml; what is in it already stays as it is."),
)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=Path())
@click.option("--name", default=None, help=_("Name of the project; default: the name of the directory."))
@json_option
def command(directory: Path, name: str | None, as_json: bool) -> None:
    lab = create_lab(directory, name)
    if as_json:
        write_json({"root": str(lab.root), "name": lab.name, "written": list(lab.written)})
        return
    write(_("lab {name} in {path}").format(name=lab.name, path=lab.root) + "\n")
    for item in lab.written:
        write(f"  {item}\n")
    write(_("next: {command}").format(command="tp new first --method trl/sft") + "\n")
