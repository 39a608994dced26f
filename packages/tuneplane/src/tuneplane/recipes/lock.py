"""`recipe.lock.json`: made, read, compared with the catalog. A lock locks.

What proves that nobody edited a lock: its parts determine each other. `digest` is the digest of the other two digests, and under a
digest that the catalog has, everything else in the lock (version, framework, bindings, required client) has exactly one right
value, which `make_lock` makes again and compares. Only `created_by` is free. A lock that fails this is tampered; one that is whole but
belongs to another version of the recipe is stale; every way out is the same command, `tp recipe lock <experiment>`.

`lock_state` says in one word how a lock stands. A lock of the recipe's present version, template, parameters and entry point whose manifest
alone is another differs in the runtime matrix or in prose: that is a compatible runtime change, refused like a stale one because the job
would run something else than what was pinned, and taken over without a look at the experiment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tuneplane import __version__
from tuneplane.contract import names
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.contract.words import LEGACY_LOCK_PREFIX, LOCK_API_VERSION
from tuneplane.i18n import _
from tuneplane.quoted_words import json_words, system_words
from tuneplane.recipes.index import Entry, installed_changes, load_index, unknown_method

State = Literal[
    "current",
    "runtime-changed",
    "stale",
    "tampered",
    "foreign",
    "method-unknown",
    "runtime-removed",
    "missing",
    "invalid",
    "catalog-changed",
]
STATE_OF_CODE: dict[str, State] = {
    "lock-missing": "missing",
    "lock-invalid": "invalid",
    "lock-foreign": "foreign",
    "lock-tampered": "tampered",
    "lock-stale": "stale",
    "lock-runtime-changed": "runtime-changed",
    "runtime-removed": "runtime-removed",
    "method-unknown": "method-unknown",
    "catalog-mismatch": "catalog-changed",
}
REQUIRED_CORE = "0.1.0"  # the first client that reads this form of lock
MAX_LOCK_BYTES = 1024 * 1024
_DIGESTS = ("digest", "manifest_digest", "template_digest")
_SHAPE: dict[str, Any] = {
    "apiVersion": str,
    "recipe": {"name": str, "version": str, "digest": str, "manifest_digest": str, "template_digest": str},
    "framework": {"kind": str, "version": str, "runtime_id": str},
    "bindings": {"params": dict, "entrypoint": str},
    "requires": {"core": str},
    "created_by": str,
}
_BINDING = {"path": str, "type": str}


class Change(NamedTuple):
    """One difference: `what` is a path in the lock; `locked` and `catalog` are texts, empty when that side has no such thing."""

    what: str
    locked: str
    catalog: str

    def __str__(self) -> str:
        return f"{self.what}: {_short(self.locked) or '-'} → {_short(self.catalog) or '-'}"


def make_lock(entry: Entry, framework_version: str | None = None) -> dict[str, Any]:
    """The lock of a recipe for one version of its framework. Raises `RefusedError` (`runtime-removed`) when it has no such version."""
    manifest = entry["manifest"]
    version = framework_version or manifest["runtime"]["default_version"]
    runtime = offered_versions(entry).get(version)
    if runtime is None:
        raise RefusedError([_removed(entry, version, "")])
    params = {name: {"path": param["path"], "type": param["type"]} for name, param in manifest["params"].items()}
    return {
        "apiVersion": LOCK_API_VERSION,
        "recipe": {
            "name": manifest["name"],
            "version": manifest["version"],
            **{name: entry[name] for name in _DIGESTS},
        },
        "framework": {"kind": manifest["framework"], "version": version, "runtime_id": runtime["runtime_id"]},
        "bindings": {"params": params, "entrypoint": manifest["entrypoint"]["value"]},
        "requires": {"core": REQUIRED_CORE},
        "created_by": f"tuneplane {__version__}",
    }


def renew_lock(lock: Mapping[str, Any], entry: Entry) -> dict[str, Any]:
    """The lock that mends this one: of the catalog's recipe, for the same framework version as long as that is offered."""
    version = lock.get("framework", {}).get("version")
    return make_lock(entry, version if version in offered_versions(entry) else None)


def offered_versions(entry: Entry) -> dict[str, Any]:
    """Framework version -> runtime, without those whose time is over (`sunset`)."""
    versions = entry["manifest"]["runtime"]["versions"]
    return {version: runtime for version, runtime in versions.items() if runtime["status"] != "sunset"}


def write_lock(path: Path, lock: Mapping[str, Any]) -> None:
    """Replace the file in one step; keys sorted, a newline at the end."""
    from tuneplane.lab.files import replace_file

    replace_file(path, render_lock(lock))


def render_lock(lock: Mapping[str, Any]) -> bytes:
    return (json.dumps(lock, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def read_lock(path: Path, experiment: str = "") -> dict[str, Any]:
    """The lock in `path`. Raises `RefusedError`: `lock-missing`, `lock-invalid`, or `lock-foreign` for another client's form."""
    hint = lock_command(experiment or path.parent.name)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_LOCK_BYTES + 1)
    except FileNotFoundError:
        raise RefusedError(
            [Refusal("lock-missing", _("the experiment has no recipe.lock.json"), hint, file=str(path))]
        ) from None
    except OSError as error:
        message = _("the lock cannot be read: {why}").format(why=system_words(error))
        raise RefusedError([Refusal("lock-invalid", message, hint, file=str(path))]) from None
    try:
        lock = _parse(data)
        form = lock.get("apiVersion")
        if form != LOCK_API_VERSION and isinstance(form, str):
            raise RefusedError([_foreign(form, hint, str(path))])
        _check_shape(lock, _SHAPE, "")
        for name, binding in lock["bindings"]["params"].items():
            _check_shape(binding, _BINDING, f"bindings.params.{name}")
        _check_words(lock)
    except ValueError as error:
        message = _("the lock is broken: {why}").format(why=error)
        raise RefusedError([Refusal("lock-invalid", message, hint, file=str(path))]) from None
    return lock


def check_lock(lock: Mapping[str, Any], entry: Entry | None, experiment: str, file: str = "") -> list[Refusal]:
    """Empty when the lock is current. `entry` is the catalog's recipe of the lock's name, None when it has none.

    Refusals: `lock-tampered`, `lock-stale` (with what changed), `lock-runtime-changed`, `runtime-removed`, `method-unknown`, and
    `catalog-mismatch` when the installed recipe itself is not what its digest says.
    """
    hint = lock_command(experiment)
    if _contradicts_itself(lock):
        message = _("the lock was edited by hand: its digests do not belong together")
        return [Refusal("lock-tampered", message, hint, field="recipe.digest", file=file)]
    pinned = pinned_method(lock)
    if pinned is not None and pinned != lock["recipe"]["name"]:
        message = _("the lock was edited by hand: it names {method}, and its digest is that of {pinned}").format(
            method=lock["recipe"]["name"], pinned=pinned
        )
        hint = f"{hint} --method {pinned}"
        return [Refusal("lock-tampered", message, hint, field="recipe.name", file=file)]
    if entry is None:
        refusal = unknown_method(lock["recipe"]["name"])
        return [Refusal(refusal.code, refusal.message, f"{refusal.hint} {hint}", field=refusal.field, file=file)]
    broken = installed_changes(entry["manifest"]["name"], entry["digest"])
    if broken:
        return list(broken)
    changes = diff_lock(lock, entry)
    if lock["recipe"]["digest"] == entry["digest"]:
        if not changes:
            return _check_version(lock, entry, hint, file)
        message = _("the lock was edited by hand: {changes}").format(changes="; ".join(map(str, changes)))
        return [Refusal("lock-tampered", message, hint, field=changes[0].what, file=file)]
    if only_runtime_changed(changes):
        message = _(
            "the runtime matrix of {method} changed; version, template, parameters and entry point are the same: {changes}"
        ).format(method=lock["recipe"]["name"], changes="; ".join(map(str, changes)))
        return [Refusal("lock-runtime-changed", message, hint, field="recipe.digest", file=file)]
    message = _("the lock is of another version of {method}: {changes}").format(
        method=lock["recipe"]["name"], changes="; ".join(map(str, changes))
    )
    stale = Refusal("lock-stale", message, hint, field="recipe.digest", file=file)
    return [stale, *_check_version(lock, entry, hint, file)]


def diff_lock(lock: Mapping[str, Any], entry: Entry) -> list[Change]:
    """How the lock differs from the one this catalog makes for the same framework version (the default one when that is gone)."""
    return change_between(lock, renew_lock(lock, entry))


def change_between(lock: Mapping[str, Any], right: Mapping[str, Any]) -> list[Change]:
    """How one lock differs from another, `created_by` left aside."""
    changes: list[Change] = []
    for part in ("recipe", "framework", "requires"):
        _compare(part, lock[part], right[part], changes)
    _compare("bindings", {"entrypoint": lock["bindings"]["entrypoint"]}, right["bindings"], changes, ("entrypoint",))
    locked, catalog = _flat_params(lock), _flat_params(right)
    _compare("bindings.params", locked, catalog, changes, tuple(sorted({*locked, *catalog})))
    return changes


def only_runtime_changed(changes: list[Change]) -> bool:
    """Whether these differences leave an experiment what it is: version, template, parameters, entry point and framework version are the
    same, and the manifest is another."""
    found = {change.what for change in changes}
    return "recipe.manifest_digest" in found and found <= {
        "recipe.digest",
        "recipe.manifest_digest",
        "framework.runtime_id",
    }


def lock_state(refusals: list[Refusal]) -> State:
    """How a lock stands, from what `read_lock` or `check_lock` refused; the worst of several reasons."""
    found = [STATE_OF_CODE[refusal.code] for refusal in refusals if refusal.code in STATE_OF_CODE]
    return "runtime-removed" if "runtime-removed" in found else found[0] if found else "current"


def pinned_method(lock: Mapping[str, Any]) -> str | None:
    """The method of the catalog that has the lock's digest, whatever name stands beside it; None when none has it."""
    digest = lock["recipe"]["digest"]
    methods = load_index()["methods"]
    same = [name for name, entry in methods.items() if entry["digest"] == digest]
    return lock["recipe"]["name"] if lock["recipe"]["name"] in same else next(iter(same), None)


def lock_command(experiment: str) -> str:
    """The one command that mends a lock."""
    return f"tp recipe lock {experiment}"


def _parse(data: bytes) -> dict[str, Any]:
    if len(data) > MAX_LOCK_BYTES:
        raise ValueError(_("it is larger than {limit} MB").format(limit=MAX_LOCK_BYTES // 1024 // 1024))
    try:
        value = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(_("it is not JSON ({why})").format(why=json_words(error))) from None
    if not isinstance(value, dict):
        raise ValueError(_("it must hold keys and values"))
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _check_shape(value: Any, shape: Mapping[str, Any], at: str) -> None:
    if not isinstance(value, dict):
        raise ValueError(_("{key} must hold keys and values").format(key=at))
    for key, wanted in shape.items():
        path = f"{at}.{key}" if at else key
        if key not in value:
            raise ValueError(_("{key} is missing").format(key=path))
        if isinstance(wanted, dict):
            _check_shape(value[key], wanted, path)
        elif not isinstance(value[key], wanted):
            raise ValueError(_("{key} is not what it should be").format(key=path))
    unknown = sorted(set(value) - set(shape))
    if unknown:
        raise ValueError(_("there is no key “{key}” here").format(key=f"{at}.{unknown[0]}" if at else unknown[0]))


def _check_words(lock: Mapping[str, Any]) -> None:
    recipe, framework = lock["recipe"], lock["framework"]
    sound = {
        "recipe.name": names.is_method_id(recipe["name"]),
        **{f"recipe.{name}": names.is_sha256(recipe[name]) for name in _DIGESTS},
        "framework.kind": names.is_segment(framework["kind"]),
        "framework.runtime_id": names.is_segment(framework["runtime_id"]),
    }
    for key, right in sound.items():
        if not right:
            raise ValueError(_("{key} is not what it should be").format(key=key))


def _contradicts_itself(lock: Mapping[str, Any]) -> bool:
    from tuneplane.contract.digests import recipe_digest

    recipe = lock["recipe"]
    return bool(recipe_digest(recipe["manifest_digest"], recipe["template_digest"]) != recipe["digest"])


def _check_version(lock: Mapping[str, Any], entry: Entry, hint: str, file: str) -> list[Refusal]:
    version = lock["framework"]["version"]
    return [] if version in offered_versions(entry) else [_removed(entry, version, hint, file)]


def _removed(entry: Entry, version: str, hint: str, file: str = "") -> Refusal:
    manifest = entry["manifest"]
    message = _("{method} no longer runs on {framework} {version}; it runs on {versions}").format(
        method=manifest["name"],
        framework=manifest["framework"],
        version=version,
        versions=", ".join(offered_versions(entry)),
    )
    return Refusal("runtime-removed", message, hint, field="framework.version", file=file)


def _foreign(form: str, hint: str, file: str) -> Refusal:
    if form.startswith(LEGACY_LOCK_PREFIX):
        message = _("the lock was written by an earlier client ({form})").format(form=form)
    else:
        message = _("this client does not know locks of the form {form}").format(form=form)
    return Refusal("lock-foreign", message, hint, field="apiVersion", file=file)


def _compare(
    part: str, locked: Mapping[str, str], catalog: Mapping[str, str], changes: list[Change], keys: tuple[str, ...] = ()
) -> None:
    for key in keys or tuple(catalog):
        old, new = locked.get(key, ""), catalog.get(key, "")
        if old != new:
            changes.append(Change(f"{part}.{key}", old, new))


def _flat_params(lock: Mapping[str, Any]) -> dict[str, str]:
    return {name: f"{item['type']} {item['path']}" for name, item in lock["bindings"]["params"].items()}


def _short(text: str) -> str:
    return text[:12] if names.is_sha256(text) else text
