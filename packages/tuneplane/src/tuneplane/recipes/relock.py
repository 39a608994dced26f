"""What a new lock of an experiment will be, beside the one that is there: for `tp recipe lock` and `tp recipe upgrade`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.recipes.foreign_lock import read_foreign
from tuneplane.recipes.index import Entry, entry, load_index
from tuneplane.recipes.lock import (
    Change,
    State,
    change_between,
    check_lock,
    lock_state,
    make_lock,
    offered_versions,
    pinned_method,
    read_lock,
    renew_lock,
    write_lock,
)


@dataclass(frozen=True)
class Relock:
    """`state` of the lock that is there; `changes` from it to `lock`, empty when it is of another client or cannot be read."""

    experiment: str
    path: Path
    state: State
    entry: Entry
    lock: dict[str, Any]
    changes: tuple[Change, ...]
    unchanged: bool

    def write(self) -> None:
        write_lock(self.path, self.lock)

    def to_json(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment,
            "method": self.lock["recipe"]["name"],
            "version": self.lock["recipe"]["version"],
            "framework_version": self.lock["framework"]["version"],
            "state": self.state,
            "changes": [str(change) for change in self.changes],
            "unchanged": self.unchanged,
        }


def plan_relock(
    experiment: str,
    path: Path,
    method: str | None = None,
    framework_version: str | None = None,
    *,
    newest: bool = False,
) -> Relock:
    """Read the lock at `path` and work out its successor: of the catalog's recipe, for the framework version that is locked as long as
    that is offered, or with `newest` for the recipe's default one.

    Raises `RefusedError`: `lock-missing` when nothing says which method it is, `lock-tampered` when the lock says two,
    `method-unknown`, `runtime-removed`.
    """
    try:
        old = read_lock(path, experiment)
    except RefusedError as error:
        return _of_unreadable(experiment, path, error.refusals, method, framework_version, newest)
    if method is None:
        method = _only_method(old, experiment, path)
    found = entry(method)
    lock = make_lock(found, framework_version) if framework_version or newest else renew_lock(old, found)
    same_method = old["recipe"]["name"] == method
    changes = tuple(change_between(old, lock)) if same_method else ()
    state = lock_state(check_lock(old, load_index()["methods"].get(old["recipe"]["name"]), experiment))
    return Relock(experiment, path, state, found, lock, changes, same_method and not changes)


def _of_unreadable(
    experiment: str, path: Path, refusals: list[Refusal], method: str | None, version: str | None, newest: bool
) -> Relock:
    foreign = read_foreign(path)
    if method is None and not foreign.method:
        raise _no_method(experiment, path)
    found = entry(method or foreign.method)
    if version is None and not newest and foreign.framework_version in offered_versions(found):
        version = foreign.framework_version
    return Relock(experiment, path, lock_state(refusals), found, make_lock(found, version), (), False)


def _only_method(lock: dict[str, Any], experiment: str, path: Path) -> str:
    """The method that name and digest of the lock agree on."""
    named: str = lock["recipe"]["name"]
    pinned = pinned_method(lock)
    if pinned is None or pinned == named:
        return named
    message = _("the lock of “{name}” names {method}, and its digest is that of {pinned}").format(
        name=experiment, method=named, pinned=pinned
    )
    hint = _("say which it is: tp recipe lock {name} --method {pinned}").format(name=experiment, pinned=pinned)
    raise RefusedError([Refusal("lock-tampered", message, hint, field="recipe.name", file=str(path))])


def _no_method(experiment: str, path: Path) -> RefusedError:
    message = _("no lock says which method “{name}” is of").format(name=experiment)
    hint = _("say it: tp recipe lock {name} --method <framework>/<method>").format(name=experiment)
    return RefusedError([Refusal("lock-missing", message, hint, file=str(path))])
