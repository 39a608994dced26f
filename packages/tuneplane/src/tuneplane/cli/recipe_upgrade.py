"""`tp recipe upgrade`."""

from __future__ import annotations

from typing import Any

import click

from tuneplane.cli.admin.asking import confirm
from tuneplane.cli.options import experiments_argument, json_option, tp_command, yes_option
from tuneplane.cli.recipe_lock import chosen, planned, write_plan
from tuneplane.cli.text import write, write_json
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _, ngettext
from tuneplane.lab.check import check_experiment
from tuneplane.lab.experiments import Experiment
from tuneplane.lab.find import Lab, find_lab
from tuneplane.recipes.relock import Relock


@tp_command(
    "tp recipe upgrade first",
    "tp recipe upgrade --all --dry-run",
    "tp recipe upgrade --all --yes",
    about=_(
        "Moves locks to the catalog's recipe and to the framework version that it runs on now; tp recipe lock keeps the version."
        " Shows what changes and asks first. An experiment that the new recipe would refuse keeps its lock, and the reasons are told."
    ),
)
@experiments_argument
@click.option("--all", "every", is_flag=True, help=_("Every experiment of the lab."))
@click.option("--dry-run", is_flag=True, help=_("Show what would change; change nothing."))
@yes_option
@json_option
def command(experiments: tuple[str, ...], every: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    lab = find_lab()
    wanted = chosen(lab, experiments, every)
    plans, refusals = planned(wanted, None, None, newest=True)
    checked = [(plan, _refused_after(lab, wanted, plan)) for plan in plans]
    ready = [plan for plan, wrong in checked if not wrong and not plan.unchanged]
    refusals += [refusal for _plan, wrong in checked for refusal in wrong]
    if not as_json:
        _write_text(checked, dry_run=dry_run)
    if ready and not dry_run:
        question = ngettext("Write {count} lock anew?", "Write {count} locks anew?", len(ready))
        confirm(question.format(count=len(ready)), yes=yes)
        for plan in ready:
            plan.write()
    if as_json:
        write_json({"items": [_as_json(plan, wrong, written=plan in ready and not dry_run) for plan, wrong in checked]})
    if refusals:
        raise RefusedError(refusals)


def _refused_after(lab: Lab, wanted: list[Experiment], plan: Relock) -> tuple[Refusal, ...]:
    """What `tp validate` would refuse in the experiment under its new lock."""
    experiment = next(item for item in wanted if item.name == plan.experiment)
    return check_experiment(lab, experiment, lock=plan.lock).refusals


def _write_text(checked: list[tuple[Relock, tuple[Refusal, ...]]], *, dry_run: bool) -> None:
    for plan, wrong in checked:
        write_plan(plan)
        if wrong and not plan.unchanged:
            write("  " + _("not upgraded: the new recipe would refuse this experiment, for the reasons below") + "\n")
    if dry_run:
        write(_("nothing was written") + "\n")


def _as_json(plan: Relock, wrong: tuple[Refusal, ...], *, written: bool) -> dict[str, Any]:
    return {**plan.to_json(), "written": written, "refusals": [refusal.to_json() for refusal in wrong]}
