"""`tp new`."""

from __future__ import annotations

import click

from tuneplane.cli.options import json_option, tp_command
from tuneplane.cli.text import write, write_json
from tuneplane.i18n import _
from tuneplane.lab.experiments import check_name
from tuneplane.lab.find import find_lab
from tuneplane.recipes.index import entry
from tuneplane.recipes.new import write_experiment


@tp_command(
    "tp new first --method trl/sft",
    "tp new script --method custom/custom",
    about=_("Writes experiments/NAME with a template that runs as it is, and the lock that pins the recipe."),
)
@click.argument("name")
@click.option("--method", required=True, metavar="FRAMEWORK/METHOD", help=_("As listed by tp methods."))
@click.option("--framework-version", default=None, help=_("Pin this version of the framework."))
@json_option
def command(name: str, method: str, framework_version: str | None, as_json: bool) -> None:
    lab = find_lab()
    check_name(name)
    directory = write_experiment(lab.root, name, entry(method), framework_version)
    written = sorted(str(path.relative_to(lab.root)) for path in directory.rglob("*") if path.is_file())
    if as_json:
        write_json({"name": name, "method": method, "directory": str(directory), "written": written})
        return
    for item in written:
        write(f"{item}\n")
    write(_("next: {command}").format(command=f"tp validate {name}") + "\n")
