"""`tp recipe diff`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from tuneplane.cli.exits import FAILED, OK
from tuneplane.cli.options import experiment_argument, json_option, server_option, tp_command
from tuneplane.cli.text import table, write, write_json
from tuneplane.i18n import _
from tuneplane.lab.find import find_lab
from tuneplane.recipes.index import entry
from tuneplane.recipes.lock import Change, diff_lock, read_lock


@tp_command(
    "tp recipe diff first",
    "tp recipe diff first --with-console",
    about=_("Exit code 0 when nothing differs, 1 when something does. tp recipe lock takes the changes over."),
)
@experiment_argument
@click.option("--with-console", is_flag=True, help=_("Also against the catalog of the console."))
@server_option
@json_option
def command(experiment: str | None, with_console: bool, server: str | None, as_json: bool) -> int:
    from tuneplane.cli.session import chosen_experiment

    found = chosen_experiment(find_lab(), experiment)
    lock = read_lock(found.lock, found.name)
    method = lock["recipe"]["name"]
    sides = {"client": diff_lock(lock, entry(method))}
    if with_console or server is not None:
        sides["console"] = _console_diff(server, method, lock["recipe"])
    differs = any(sides.values())
    if as_json:
        write_json({side: [change._asdict() for change in changes] for side, changes in sides.items()})
        return FAILED if differs else OK
    if not differs:
        write(_("{name}: the lock is current").format(name=found.name) + "\n")
    for side, changes in sides.items():
        if changes:
            title = _("this client's catalog") if side == "client" else _("the console's catalog")
            write(
                table([title, _("LOCKED"), _("CATALOG")], [(item.what, item.locked, item.catalog) for item in changes])
            )
    return FAILED if differs else OK


def _console_diff(server: str | None, method: str, locked: dict[str, str]) -> list[Change]:
    from tuneplane.cli.session import open_console

    with open_console(server) as console:
        offered = console.catalog()["methods"].get(method)
    return console_changes(locked, offered)


def console_changes(locked: dict[str, str], offered: Mapping[str, Any] | None) -> list[Change]:
    """How a lock's recipe differs from what a console offers (`None`: it does not offer the method)."""
    if offered is None:
        return [Change("recipe.name", locked["name"], "")]
    keys = ("version", "digest", "manifest_digest", "template_digest")
    return [
        Change(f"recipe.{key}", locked[key], offered[key])
        for key in keys
        if key in offered and locked[key] != offered[key]
    ]
