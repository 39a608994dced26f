"""`tp recipe lock`."""

from __future__ import annotations

import json
from typing import Any

import click

from tuneplane.cli.options import experiments_argument, json_option, tp_command
from tuneplane.cli.text import write, write_json
from tuneplane.contract.names import is_method_id
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.lab.experiments import Experiment, list_experiments
from tuneplane.lab.find import find_lab
from tuneplane.recipes.index import entry
from tuneplane.recipes.lock import diff_lock, make_lock, read_lock, renew_lock, write_lock


@tp_command(
    "tp recipe lock first",
    "tp recipe lock old --method trl/sft",
    about=_(
        "Pins the recipe as this client has it, and says what changed. A lock that cannot be read names no method:"
        " give it with --method."
    ),
)
@experiments_argument
@click.option("--all", "every", is_flag=True, help=_("Every experiment of the lab."))
@click.option("--method", default=None, metavar="FRAMEWORK/METHOD", help=_("Lock for this method."))
@click.option("--framework-version", default=None, help=_("Pin this version of the framework."))
@json_option
def command(
    experiments: tuple[str, ...], every: bool, method: str | None, framework_version: str | None, as_json: bool
) -> None:
    from tuneplane.cli.session import chosen_experiment

    lab = find_lab()
    if every and experiments:
        raise click.UsageError(_("name experiments or take --all, not both"))
    chosen = list_experiments(lab) if every else [chosen_experiment(lab, name) for name in experiments or (None,)]
    made = [_lock(experiment, method, framework_version) for experiment in chosen]
    if as_json:
        write_json({"items": made})
        return
    for item in made:
        write(f"{item['experiment']}: {item['method']} {item['version']}\n")
        for change in item["changes"]:
            write(f"  {change}\n")
        if item["unchanged"]:
            write("  " + _("nothing changed") + "\n")


def _lock(experiment: Experiment, method: str | None, framework_version: str | None) -> dict[str, Any]:
    old = _old_lock(experiment)
    if method is None and not old:
        raise _no_method(experiment)
    found = entry(method or old["recipe"]["name"])
    lock = make_lock(found, framework_version) if framework_version else renew_lock(old, found)
    whole = "bindings" in old and old["recipe"]["name"] == lock["recipe"]["name"]
    changes = [str(change) for change in diff_lock(old, found)] if whole else []
    write_lock(experiment.lock, lock)
    return {
        "experiment": experiment.name,
        "method": lock["recipe"]["name"],
        "version": lock["recipe"]["version"],
        "framework_version": lock["framework"]["version"],
        "changes": changes,
        "unchanged": whole and not changes and old["framework"] == lock["framework"],
    }


def _old_lock(experiment: Experiment) -> dict[str, Any]:
    """The lock as it is; of one that this client cannot read only the method, when it names one; else empty."""
    try:
        return read_lock(experiment.lock, experiment.name)
    except RefusedError:
        pass  # that is what this command mends
    try:
        value = json.loads(experiment.lock.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    recipe = value.get("recipe") if isinstance(value, dict) else None
    name = recipe.get("name") if isinstance(recipe, dict) else recipe
    return {"recipe": {"name": name}} if isinstance(name, str) and is_method_id(name) else {}


def _no_method(experiment: Experiment) -> RefusedError:
    message = _("no lock says which method “{name}” is of").format(name=experiment.name)
    hint = _("say it: tp recipe lock {name} --method <framework>/<method>").format(name=experiment.name)
    return RefusedError([Refusal("lock-missing", message, hint, file=str(experiment.lock))])
