"""The JobSpec of a trial: the sweep's own, with the trial's values in it. The same rows give the same JobSpec, whoever asks when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuneplane.sweeps.space import Axis, draw, split, variant

SWEEP_LABEL, TRIAL_LABEL = "sweep", "trial"
_NAME_LENGTH = 200


def trial_spec(job: Mapping[str, Any], sweep_id: str, name: str | None, number: int, params: Mapping[str, Any]) -> Any:
    """`number` from 0. What is labelled and named is for people: it says where to look for the trial of a job, and proves nothing."""
    plain, env = split(params)
    metadata, spec = job["metadata"], job["spec"]
    shown = f"{name or metadata.get('display_name') or metadata['name']}"[: _NAME_LENGTH - 8] + f" #{number}"
    labels = {**metadata.get("labels", {}), SWEEP_LABEL: sweep_id, TRIAL_LABEL: str(number)}
    return {
        **job,
        "metadata": {**metadata, "display_name": shown, "labels": labels},
        "spec": {
            **spec,
            "hyperparams": {**spec.get("hyperparams", {}), **plain},
            "env": {**spec.get("env", {}), **env},
        },
    }


def planned_variant(method: str, space: Sequence[Axis], seed: int, number: int, total: int) -> dict[str, Any] | None:
    """The variant of a trial that needs no results of others; None where it does."""
    if method == "grid":
        return variant(space, number)
    return None if method == "bayes" else draw(space, seed, number, total)


def example(space: Sequence[Axis]) -> dict[str, Any]:
    """Some variant, to ask admission with before there is any trial."""
    return {
        axis.name: (int(axis.low) if axis.integer else axis.low) if axis.values is None else axis.values[0]
        for axis in space
    }
