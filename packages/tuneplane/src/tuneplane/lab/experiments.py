"""The experiments of a lab: `experiments/<name>/`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tuneplane.contract.names import MAX_SEGMENT, is_segment
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.contract.words import CONFIG_FILE, EXPERIMENTS_DIR, LOCK_FILE
from tuneplane.i18n import _
from tuneplane.lab.find import Lab


@dataclass(frozen=True)
class Experiment:
    """One directory below `experiments/`; its files may be missing."""

    name: str
    directory: Path

    @property
    def config(self) -> Path:
        return self.directory / CONFIG_FILE

    @property
    def lock(self) -> Path:
        return self.directory / LOCK_FILE


def check_name(name: str, what: str = "") -> None:
    """Refuse (`name-invalid`) what is no name of an experiment; `what` names the thing when it is something else."""
    if is_segment(name):
        return
    shown = name if len(name) <= 80 else f"{name[:80]}…"
    message = _("“{name}” is not a name").format(name=shown)
    hint = _("use 1 to {limit} of A-Z a-z 0-9 . _ -, first a letter or digit, without “..”").format(limit=MAX_SEGMENT)
    raise RefusedError([Refusal("name-invalid", message, hint, field=what or "metadata.name")])


def find_experiment(lab: Lab, name: str) -> Experiment:
    """The experiment called `name` (`experiments/<name>` as a shell completes it is taken too). Raises `RefusedError`."""
    plain = name.rstrip("/").removeprefix("./").removeprefix(f"{EXPERIMENTS_DIR}/")
    check_name(plain)
    directory = lab.experiments / plain
    if directory.is_dir():
        return Experiment(plain, directory)
    raise RefusedError(
        [
            Refusal(
                "experiment-not-found",
                _("there is no experiment “{name}” in {path}").format(name=plain, path=lab.experiments),
                _missing_hint(plain, [item.name for item in list_experiments(lab)]),
            )
        ]
    )


def list_experiments(lab: Lab) -> list[Experiment]:
    """Every experiment of the lab, by name. Hidden directories and names that could not be submitted are left out."""
    try:
        found = sorted(item.name for item in lab.experiments.iterdir() if item.is_dir())
    except FileNotFoundError:
        return []
    return [Experiment(name, lab.experiments / name) for name in found if is_segment(name)]


def experiment_at(lab: Lab, directory: Path) -> Experiment | None:
    """The experiment that `directory` lies in, if it lies in one."""
    try:
        parts = directory.absolute().relative_to(lab.experiments).parts
    except ValueError:
        return None
    return Experiment(parts[0], lab.experiments / parts[0]) if parts and is_segment(parts[0]) else None


def _missing_hint(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    if close:
        return _("did you mean “{name}”? tp ls shows all of them").format(name=close[0])
    if known:
        return _("tp ls shows the experiments of this lab")
    return _("make one with: tp new {name} --method trl/sft").format(name=name)
