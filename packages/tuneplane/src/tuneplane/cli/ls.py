"""`tp ls`."""

from __future__ import annotations

from typing import Any

from tuneplane.cli.lock_words import state_words
from tuneplane.cli.options import json_option, tp_command
from tuneplane.cli.text import note, table, write, write_json
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.lab.experiments import Experiment, list_experiments
from tuneplane.lab.find import find_lab
from tuneplane.recipes.index import load_index
from tuneplane.recipes.lock import check_lock, lock_state, read_lock


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
    rows = [
        (item["name"], item["method"], item["version"], item["framework"], state_words(item["state"])) for item in found
    ]
    write(table([_("EXPERIMENT"), _("METHOD"), _("VERSION"), _("RUNTIME"), _("LOCK")], rows))


def _describe(experiment: Experiment) -> dict[str, Any]:
    """`state` of the lock; `lock` is empty for a current one, else the code of what is wrong with it."""
    value: dict[str, Any] = {"name": experiment.name, "method": None, "version": None, "framework": None}
    try:
        lock = read_lock(experiment.lock, experiment.name)
    except RefusedError as error:
        return _unreadable(value, experiment, error.refusals)
    value["method"], value["version"] = lock["recipe"]["name"], lock["recipe"]["version"]
    value["framework"] = f"{lock['framework']['kind']} {lock['framework']['version']}"
    refusals = check_lock(lock, load_index()["methods"].get(value["method"]), experiment.name)
    return {**value, "lock": refusals[0].code if refusals else "", "state": lock_state(refusals)}


def _unreadable(value: dict[str, Any], experiment: Experiment, refusals: list[Refusal]) -> dict[str, Any]:
    """Of a lock of another client the method is known where it names one."""
    from tuneplane.recipes.foreign_lock import read_foreign

    method = read_foreign(experiment.lock).method or None
    return {**value, "method": method, "lock": refusals[0].code, "state": lock_state(refusals)}
