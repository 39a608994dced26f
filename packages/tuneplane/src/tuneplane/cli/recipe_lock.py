"""`tp recipe lock`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from tuneplane.cli.options import experiments_argument, json_option, tp_command
from tuneplane.cli.text import clean, note, write, write_json
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.lab.experiments import Experiment, list_experiments
from tuneplane.lab.find import Lab, find_lab
from tuneplane.recipes.relock import Relock, plan_relock


@tp_command(
    "tp recipe lock first",
    "tp recipe lock --all",
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
    plans, refusals = planned(chosen(find_lab(), experiments, every), method, framework_version)
    for plan in plans:
        plan.write()
    if as_json:
        write_json({"items": [plan.to_json() for plan in plans]})
    else:
        for plan in plans:
            write_plan(plan)
    if refusals:
        raise RefusedError(refusals)


def chosen(lab: Lab, names: tuple[str, ...], every: bool) -> list[Experiment]:
    """The experiments named, all of them, or the one that the working directory lies in."""
    from tuneplane.cli.session import chosen_experiment

    if every and names:
        raise click.UsageError(_("name experiments or take --all, not both"))
    found = list_experiments(lab) if every else [chosen_experiment(lab, name) for name in names or (None,)]
    if not found:
        note(_("no experiments yet; make one with: tp new first --method trl/sft"))
    return found


def planned(
    experiments: list[Experiment], method: str | None, framework_version: str | None, *, newest: bool = False
) -> tuple[list[Relock], list[Refusal]]:
    """The new locks, and why some experiments can have none: one that cannot does not keep the others from theirs."""
    plans: list[Relock] = []
    refusals: list[Refusal] = []
    for item in experiments:
        try:
            plans.append(plan_relock(item.name, item.lock, method, framework_version, newest=newest))
        except RefusedError as error:
            refusals += [replace(refusal, file=refusal.file or str(item.lock)) for refusal in error.refusals]
    return plans, refusals


def write_plan(plan: Relock) -> None:
    """What changes, one difference a line."""
    found: dict[str, Any] = plan.to_json()
    write(f"{found['experiment']}: {found['method']} {found['version']}\n")
    for change in found["changes"]:
        write(f"  {clean(change)}\n")
    if found["unchanged"]:
        write("  " + _("nothing changed") + "\n")
