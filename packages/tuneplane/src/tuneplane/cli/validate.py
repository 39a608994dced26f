"""`tp validate`: everything that can be known without a console."""

from __future__ import annotations

from pathlib import Path

import click

from tuneplane.cli.options import experiments_argument, json_option, tp_command
from tuneplane.cli.text import note, write, write_json
from tuneplane.contract.refusals import RefusedError
from tuneplane.i18n import _
from tuneplane.lab.check import Checked, check_experiment
from tuneplane.lab.experiments import Experiment, experiment_at, find_experiment, list_experiments
from tuneplane.lab.find import Lab, find_lab


@tp_command(
    "tp validate first",
    "tp validate --all",
    "tp validate first --set learning_rate=1e-4",
    about=_(
        "Checks the lock, every key of the config with its type and bounds, and the files the method needs."
        " Needs no console. Inside an experiment its name may be left out."
    ),
)
@experiments_argument
@click.option("--all", "every", is_flag=True, help=_("Every experiment of the lab."))
@click.option("--set", "overrides", multiple=True, metavar="NAME=VALUE", help=_("As tp submit --set."))
@json_option
def command(experiments: tuple[str, ...], every: bool, overrides: tuple[str, ...], as_json: bool) -> None:
    lab = find_lab()
    checked = [check_experiment(lab, experiment, overrides) for experiment in _chosen(lab, experiments, every)]
    if as_json:
        write_json({"items": [_as_json(item) for item in checked]})
    refusals = [refusal for item in checked for refusal in item.refusals]
    if refusals:
        raise RefusedError(refusals)
    if not as_json:
        for item in checked:
            write(_("{name}: valid ({method})").format(name=item.experiment.name, method=item.method) + "\n")


def _chosen(lab: Lab, names: tuple[str, ...], every: bool) -> list[Experiment]:
    if every:
        found = list_experiments(lab)
        if not found:
            note(_("no experiments yet; make one with: tp new first --method trl/sft"))
        return found
    if names:
        return [find_experiment(lab, name) for name in names]
    here = experiment_at(lab, Path.cwd())
    if here is None:
        raise click.UsageError(_("name an experiment, or take --all"))
    return [here]


def _as_json(item: Checked) -> dict[str, object]:
    return {
        "name": item.experiment.name,
        "method": item.method or None,
        "valid": not item.refusals,
        "refusals": [refusal.to_json() for refusal in item.refusals],
    }
