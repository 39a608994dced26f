"""`tp recipe diff`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from tuneplane.cli.exits import FAILED, OK
from tuneplane.cli.lock_words import state_words
from tuneplane.cli.options import experiment_argument, json_option, server_option, tp_command
from tuneplane.cli.text import clean, table, write, write_json
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.lab.experiments import Experiment
from tuneplane.lab.find import find_lab
from tuneplane.recipes.index import load_index
from tuneplane.recipes.lock import Change, State, check_lock, diff_lock, lock_state, read_lock


@dataclass
class Comparison:
    """A lock beside the catalogs: `state`, the reasons for it, and by side (`client`, `console`) what differs."""

    state: State
    refusals: list[Refusal] = field(default_factory=list)
    method: str = ""
    sides: dict[str, list[Change]] = field(default_factory=lambda: {"client": []})

    @property
    def differs(self) -> bool:
        return self.state != "current" or any(self.sides.values())


@tp_command(
    "tp recipe diff first",
    "tp recipe diff first --with-console",
    about=_(
        "Says how the lock stands: current, runtime changed, stale, tampered, of another client, method unknown or runtime gone."
        " Exit code 0 when nothing differs, 1 when something does. tp recipe lock takes the changes over."
    ),
)
@experiment_argument
@click.option("--with-console", is_flag=True, help=_("Also against the catalog of the console."))
@server_option
@json_option
def command(experiment: str | None, with_console: bool, server: str | None, as_json: bool) -> int:
    from tuneplane.cli.session import chosen_experiment

    found = chosen_experiment(find_lab(), experiment)
    compared = compare(found)
    if with_console or server is not None:
        compared.sides["console"] = _console_diff(server, found, compared.method)
    if as_json:
        _write_json(compared)
    else:
        _write_text(found.name, compared)
    return FAILED if compared.differs else OK


def compare(experiment: Experiment) -> Comparison:
    """The lock of an experiment against this client's catalog."""
    try:
        lock = read_lock(experiment.lock, experiment.name)
    except RefusedError as error:
        from tuneplane.recipes.foreign_lock import read_foreign

        foreign = read_foreign(experiment.lock)
        return Comparison(lock_state(error.refusals), error.refusals, foreign.method)
    method = lock["recipe"]["name"]
    entry = load_index()["methods"].get(method)
    refusals = check_lock(lock, entry, experiment.name, str(experiment.lock))
    changes = [Change("recipe.name", method, "")] if entry is None else diff_lock(lock, entry)
    return Comparison(lock_state(refusals), refusals, method, {"client": changes})


def _write_json(compared: Comparison) -> None:
    write_json(
        {
            "state": compared.state,
            "method": compared.method or None,
            "refusals": [refusal.to_json() for refusal in compared.refusals],
            **{side: [change._asdict() for change in changes] for side, changes in compared.sides.items()},
        }
    )


def _write_text(name: str, compared: Comparison) -> None:
    if not compared.differs:
        write(_("{name}: the lock is current").format(name=name) + "\n")
        return
    write(_("{name}: {state}").format(name=name, state=state_words(compared.state)) + "\n")
    for refusal in compared.refusals:
        write(f"  {clean(refusal.message)}\n  → {clean(refusal.hint)}\n")
    for side, changes in compared.sides.items():
        if changes:
            title = _("this client's catalog") if side == "client" else _("the console's catalog")
            write(
                table([title, _("LOCKED"), _("CATALOG")], [(item.what, item.locked, item.catalog) for item in changes])
            )


def _console_diff(server: str | None, experiment: Experiment, method: str) -> list[Change]:
    from tuneplane.cli.session import open_console

    locked = read_lock(experiment.lock, experiment.name)["recipe"]
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
