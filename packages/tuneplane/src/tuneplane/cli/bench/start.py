"""Submit an evaluation: with the packaged template of evalkit/benchmark, or with an experiment of the lab."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from tuneplane.cli.bench.target import Target, find_target
from tuneplane.cli.session import lab_or_none, open_console
from tuneplane.cli.submission import draft
from tuneplane.cli.submit import submit_draft
from tuneplane.client.http import Console
from tuneplane.evaluation.gates import parse_gate
from tuneplane.evaluation.package import packaged_lab, settings_of
from tuneplane.evaluation.suites import METHOD, Chosen, choose
from tuneplane.i18n import _
from tuneplane.lab.experiments import Experiment, check_name, find_experiment
from tuneplane.lab.find import Lab, find_lab
from tuneplane.recipes.index import config_keys, entry

NO_LAB = "evaluations"  # the project of a model that is evaluated outside of a lab
NAME_LENGTH = 200


@dataclass(frozen=True)
class Wanted:
    """`suites`: names of suites and packs; `experiment`: of the lab, which then says itself what is measured."""

    suites: Sequence[str]
    experiment: str | None = None


def start(target: str, wanted: Wanted, given: dict[str, Any]) -> int | None:
    """`given`: the options by name. Returns the exit code."""
    chosen = None if wanted.experiment else _chosen(wanted, given)
    with open_console(given["server"]) as console:
        found = find_target(console, target, given["step"])
    title = ", ".join([*wanted.suites, *_tasks(given)]) or wanted.experiment or ""
    options = {
        **given,
        "model": found.base or found.ref,
        "init_from": found.ref if found.base else None,
        "train_data": None,
        "observability": None,
        "observability_url": None,
        "name": given["name"] or f"{title} · {found.shown}"[:NAME_LENGTH],
    }
    with _lab(wanted, chosen, found, given) as (lab, experiment):
        return submit_draft(draft(lab, experiment, options), options, _finish(given))


def _finish(given: dict[str, Any]) -> Any:
    def done(console: Console, run: str) -> int:
        from tuneplane.cli.bench.show import show

        return show(console, run, as_json=given["as_json"])

    return done


def _chosen(wanted: Wanted, given: dict[str, Any]) -> Chosen:
    tasks = _tasks(given)
    if not wanted.suites and not tasks:
        raise click.UsageError(
            _("say what to measure: --suite general, or --tasks with names; tp bench suites lists the suites")
        )
    keys = config_keys(entry(METHOD)) or {}
    chosen = choose(wanted.suites, tasks, keys["packs"]["choices"])
    if chosen.runs_code and not given["allow_code"]:
        raise click.UsageError(
            _("this suite runs code that the model writes, on the machine of the job; allow it with --allow-code")
        )
    return chosen


@contextmanager
def _lab(
    wanted: Wanted, chosen: Chosen | None, found: Target, given: dict[str, Any]
) -> Iterator[tuple[Lab, Experiment]]:
    if chosen is None:
        assert wanted.experiment is not None
        lab = find_lab()
        yield lab, find_experiment(lab, wanted.experiment)
        return
    around = lab_or_none()
    project = given["project"] or found.project or (around.name if around else NO_LAB)
    check_name(project, "metadata.project")
    settings = settings_of(
        chosen,
        limit=given["limit"],
        num_fewshot=given["shots"],
        chat_template=given["chat_template"],
        allow_code=given["allow_code"],
        gates=[parse_gate(text) for text in given["gate"]],
    )
    with packaged_lab(project, settings) as made:
        yield made


def _tasks(given: dict[str, Any]) -> list[str]:
    return [name for item in given["tasks"] for part in item.split(",") if (name := part.strip())]
