"""Everything that can be checked about an experiment without a console: lock, config, `--set` values, the files it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.lab.config import ResolvedConfig, resolve_config
from tuneplane.lab.experiments import Experiment
from tuneplane.lab.find import Lab
from tuneplane.lab.overrides import split_overrides
from tuneplane.recipes.index import Entry, load_index
from tuneplane.recipes.lock import check_lock, read_lock
from tuneplane.recipes.validate import check_config, parse_set_values


@dataclass(frozen=True)
class Checked:
    """What was found out about one experiment. `lock`, `entry` and `config` are None when they could not be read; `hyperparams` are
    the `--set` values by parameter name; `refusals` is empty for an experiment that may be submitted."""

    experiment: Experiment
    lock: dict[str, Any] | None = None
    entry: Entry | None = None
    config: ResolvedConfig | None = None
    hyperparams: dict[str, Any] = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()

    @property
    def method(self) -> str:
        """The method of the lock, empty when there is none."""
        return str(self.lock["recipe"]["name"]) if self.lock else ""


def check_experiment(
    lab: Lab, experiment: Experiment, overrides: Sequence[str] = (), lock: dict[str, Any] | None = None
) -> Checked:
    """Check one experiment completely; `overrides` are `name=value` texts of `--set`. Never stops at the first problem.

    `lock`: as if it had this lock, whatever lies in its directory.
    """
    texts, refusals = split_overrides(overrides)
    lock = lock or _read_lock(experiment, refusals)
    entry = load_index()["methods"].get(lock["recipe"]["name"]) if lock else None
    if lock is not None:
        refusals += check_lock(lock, entry, experiment.name, str(experiment.lock))
    config, wrong = resolve_config(experiment.directory, lab.root)
    refusals += wrong
    hyperparams: dict[str, Any] = {}
    if lock is not None and entry is not None:
        version = _known_version(entry, lock)
        hyperparams, _wrong = parse_set_values(entry, texts, version)
        refusals += _check_files(experiment, entry)
        found = check_config(entry, config.values if config else {}, config.positions if config else {}, texts, version)
        # A config that cannot be read may well set what the recipe requires.
        refusals += [item for item in found if config is not None or item.code != "param-required"]
    return Checked(experiment, lock, entry, config, hyperparams, tuple(refusals))


def _known_version(entry: Entry, lock: dict[str, Any]) -> str | None:
    """The locked version of the framework, None (the default one) when the catalog no longer has it."""
    version: str = lock["framework"]["version"]
    return version if version in entry["manifest"]["runtime"]["versions"] else None


def _read_lock(experiment: Experiment, refusals: list[Refusal]) -> dict[str, Any] | None:
    try:
        return read_lock(experiment.lock, experiment.name)
    except RefusedError as error:
        refusals.extend(_with_method(refusal, experiment) for refusal in error.refusals)
        return None


def _with_method(refusal: Refusal, experiment: Experiment) -> Refusal:
    """Without a lock nothing says which method it is; the command that mends it has to."""
    if refusal.code != "lock-missing":
        return refusal
    hint = _("tp recipe lock {name} --method <framework>/<method>").format(name=experiment.name)
    return replace(refusal, hint=hint)


def _check_files(experiment: Experiment, entry: Entry) -> list[Refusal]:
    """The script that the recipe starts must be there."""
    entrypoint = entry["manifest"]["entrypoint"]
    path = experiment.directory / entrypoint["value"]
    if entrypoint["kind"] != "experiment" or path.is_file():
        return []
    return [
        Refusal(
            "file-missing",
            _("{method} runs {file} of the experiment, and there is none").format(
                method=entry["manifest"]["name"], file=entrypoint["value"]
            ),
            _("write it, or take it from a new experiment: tp new <name> --method {method}").format(
                method=entry["manifest"]["name"]
            ),
            file=str(path),
        )
    ]
