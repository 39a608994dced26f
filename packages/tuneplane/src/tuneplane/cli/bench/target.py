"""What is evaluated: a model by its reference, or a checkpoint of a run by the run's id."""

from __future__ import annotations

from typing import NamedTuple

import click

from tuneplane.cli.job.ids import find_job
from tuneplane.client.http import Console
from tuneplane.client.types import Job
from tuneplane.contract.names import parse_hub_ref, parse_run_ref
from tuneplane.i18n import _


class Target(NamedTuple):
    """`ref`: as the JobSpec has it. `project`: the run's own, None for a model. `shown`: in the name of the job. `base`: the model that
    adapters of a run belong to; it is not among what they name when it lies on another machine or under another mount.
    """

    ref: str
    project: str | None
    shown: str
    base: str | None = None


def is_model(text: str) -> bool:
    """Whether the text names a model by itself; anything else is the id of a run."""
    return text.startswith("/") or parse_hub_ref(text) is not None or parse_run_ref(text) is not None


def find_target(console: Console, text: str, step: int | None) -> Target:
    """Raises `click.UsageError` for what is neither, `NotFoundError` for a run that there is not."""
    named = parse_run_ref(text)
    if is_model(text) and named is None:
        if step is not None:
            raise click.UsageError(_("--step goes with a run, and {model} is a model").format(model=text[:80]))
        return Target(text, None, text.rpartition("/")[2])
    if named is None:
        _check_id(text)
    run = find_job(console, text) if named is None else named.run
    if named is not None and step is not None:
        raise click.UsageError(_("give the step in the reference or with --step, not both"))
    job = console.job(run)
    ref = text if named is not None else f"run/{run}/checkpoint" + ("" if step is None else f"@step={step}")
    name = job.get("display_name") or job["experiment"]
    of_step = step if named is None else named.step
    shown = name if of_step is None else f"{name} · {of_step}"
    return Target(ref, job["project"], shown, _base_of_adapters(console, job))


def _base_of_adapters(console: Console, job: Job) -> str | None:
    """The base model of the run's JobSpec, when what the run left are adapters."""
    model = ((job.get("spec") or {}).get("spec") or {}).get("model") or {}
    base: str | None = model.get("base")
    if base is None:
        return None
    files = console.artifacts(job["id"])["files"]
    return base if any(file["path"].endswith("/adapter_config.json") for file in files) else None


def _check_id(text: str) -> None:
    """A name on a hub without its prefix is what people write first."""
    if "/" in text:
        raise click.UsageError(
            _("“{text}” is neither a run nor a model; a model of the Hugging Face hub: hf:{text}").format(
                text=text[:80]
            )
        )
