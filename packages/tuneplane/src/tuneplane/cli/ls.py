"""`tp ls`."""

from __future__ import annotations

from typing import Any

from tuneplane.cli.options import json_option, tp_command
from tuneplane.cli.text import note, table, write, write_json
from tuneplane.contract.refusals import RefusedError
from tuneplane.i18n import _
from tuneplane.lab.experiments import Experiment, list_experiments
from tuneplane.lab.find import find_lab
from tuneplane.recipes.index import load_index
from tuneplane.recipes.lock import check_lock, read_lock

_STATES = {
    "": lambda: _("current"),
    "lock-missing": lambda: _("no lock"),
    "lock-invalid": lambda: _("broken"),
    "lock-foreign": lambda: _("of another client"),
    "lock-tampered": lambda: _("tampered"),
    "lock-stale": lambda: _("stale"),
    "runtime-removed": lambda: _("runtime gone"),
    "method-unknown": lambda: _("method unknown"),
}


@tp_command("tp ls", "tp ls --json", about=_("With the method of each, and whether its lock fits this client."))
@json_option
def command(as_json: bool) -> None:
    lab = find_lab()
    found = [_describe(experiment) for experiment in list_experiments(lab)]
    if as_json:
        write_json({"lab": str(lab.root), "project": lab.name, "items": found})
        return
    if not found:
        note(_("no experiments yet; make one with: tp new first --method trl/sft"))
        return
    rows = [(item["name"], item["method"], item["version"], item["framework"], item["lock"]) for item in found]
    shown = [(*row[:-1], _STATES[row[-1]]()) for row in rows]
    write(table([_("EXPERIMENT"), _("METHOD"), _("VERSION"), _("RUNTIME"), _("LOCK")], shown))


def _describe(experiment: Experiment) -> dict[str, Any]:
    """`lock` is empty for a current lock, else the code of what is wrong with it."""
    value: dict[str, Any] = {"name": experiment.name, "method": None, "version": None, "framework": None, "lock": ""}
    try:
        lock = read_lock(experiment.lock, experiment.name)
    except RefusedError as error:
        return {**value, "lock": error.refusals[0].code}
    value["method"], value["version"] = lock["recipe"]["name"], lock["recipe"]["version"]
    value["framework"] = f"{lock['framework']['kind']} {lock['framework']['version']}"
    refusals = check_lock(lock, load_index()["methods"].get(value["method"]), experiment.name)
    return {**value, "lock": refusals[0].code if refusals else ""}
