"""Check an experiment's configuration against its recipe: every problem at once, each with file and line.

The keys are all keys of the framework's own configuration classes, as recorded in the schema; the recipe's parameters are those of
them that `--set` may name. A key of a nested configuration is its dotted path. A framework without a schema (custom) takes any key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane.recipes.index import CATALOG, Entry, config_keys, nearest, nearest_hint, prose
from tuneplane.recipes.values import Problem, check_finite, check_value, found_words, parse_text

Positions = Mapping[str, tuple[str, int]]
INTERPOLATING = ("overrides", "hydra")  # config modes of frameworks that read their configuration with OmegaConf


def check_config(
    entry: Entry,
    config: Mapping[str, Any],
    positions: Positions,
    set_values: Mapping[str, str] | None = None,
    framework_version: str | None = None,
    catalog: Path = CATALOG,
) -> list[Refusal]:
    """What is wrong with the resolved configuration and with `--set` values; empty when a job may be made of them.

    `config` holds the framework's own keys; `positions` maps a path in it to (file, 1-based line). Codes: `param-unknown`, `param-type`,
    `param-range`, `param-choice`, `param-required`, `key-platform-owned`, `number-not-finite`.
    """
    keys = config_keys(entry, framework_version, catalog)
    owned: dict[str, str] = entry["manifest"]["adapter_options"]["owned"]
    refusals = []
    sections = _sections([*(keys or ()), *owned])
    for key, value in _leaves(config, keys or {}, sections):
        if holder := owning(key, owned):
            refusals.append(_owned(key, owned[holder], positions))
        elif keys is None:
            refusals += _placed(key, list(check_finite(key, value)), positions)
        elif (key in keys or key in sections) and _interpolates(value, entry):
            continue
        elif key in keys:
            refusals += _placed(key, check_value(key, value, keys[key]), positions)
        elif key in sections:
            refusals += _placed(key, _no_section(key, value), positions)
        else:
            refusals.append(_unknown(entry, key, [*keys, *owned], positions))
    values, wrong = parse_set_values(entry, set_values or {}, framework_version, catalog)
    return [*refusals, *wrong, *_missing(entry, config, values, positions)]


def _interpolates(value: Any, entry: Entry) -> bool:
    """The value is computed from other keys by OmegaConf, `${policy.model_name}`: nobody knows it before the job does."""
    mode = entry["manifest"]["adapter_options"]["config_mode"]
    return mode in INTERPOLATING and isinstance(value, str) and "${" in value


def owning(path: str, owned: Mapping[str, str]) -> str:
    """The owned key that holds `path`: itself or one above it; empty when there is none."""
    parts = path.split(".")
    return next((key for end in range(len(parts), 0, -1) if (key := ".".join(parts[:end])) in owned), "")


def _sections(keys: list[str]) -> set[str]:
    """Every path that has keys below it."""
    return {key[: position.start()] for key in keys for position in re.finditer(r"\.", key)}


def _leaves(
    value: Mapping[str, Any], keys: Mapping[str, Any], sections: set[str], at: str = ""
) -> Iterator[tuple[str, Any]]:
    """Dotted path and value of everything the configuration sets; a mapping is opened where the framework has keys below it."""
    for name, item in value.items():
        path = f"{at}{name}"
        if path not in sections or not isinstance(item, dict):
            yield path, item
            continue
        if path not in keys:
            yield from _leaves(item, keys, sections, f"{path}.")
            continue
        # A section that takes keys of any name besides those it is known to have.
        known = {key: part for key, part in item.items() if f"{path}.{key}" in keys or f"{path}.{key}" in sections}
        yield path, {key: part for key, part in item.items() if key not in known}
        yield from _leaves(known, keys, sections, f"{path}.")


def _no_section(key: str, value: Any) -> list[Problem]:
    """A plain value where the framework has keys: frameworks fail on it long after the start."""
    if value is None or value == {}:
        return []
    message = _("{key} must be keys and values, not {found}").format(key=key, found=found_words(value))
    return [Problem("param-type", message)]


def parse_set_values(
    entry: Entry, set_values: Mapping[str, str], framework_version: str | None = None, catalog: Path = CATALOG
) -> tuple[dict[str, Any], list[Refusal]]:
    """`--set name=text` as values of the recipe's parameters, and what is wrong with them. `null` empties a parameter that may be."""
    values: dict[str, Any] = {}
    refusals: list[Refusal] = []
    for name, text in set_values.items():
        spec = _param_spec(entry, name, framework_version, catalog)
        if spec is None:
            refusals.append(_unknown_param(entry, name, f"hyperparams.{name}"))
            continue
        value, problems = parse_text(name, text, spec)
        if problems:
            refusals += _set_refusals(name, problems)
        else:
            values[name] = value
    return values, refusals


def check_hyperparams(entry: Entry, values: Mapping[str, Any], framework_version: str | None = None) -> list[Refusal]:
    """What is wrong with `spec.hyperparams` of a JobSpec, whose values have types already; `field` is the path below it."""
    refusals: list[Refusal] = []
    for name, value in values.items():
        spec = _param_spec(entry, name, framework_version)
        if spec is None:
            refusals.append(_unknown_param(entry, name, name))
        else:
            refusals += [
                Refusal(item.code, item.message, item.hint, f"{name}{item.at}")
                for item in check_value(name, value, spec)
            ]
    return refusals


def _param_spec(entry: Entry, name: str, version: str | None, catalog: Path = CATALOG) -> dict[str, Any] | None:
    """The schema's word on the key that the parameter sets, else the manifest's own."""
    param = entry["manifest"]["params"].get(name)
    if param is None or (param.get("versions") and version and version not in param["versions"]):
        return None
    keys = config_keys(entry, version, catalog) or {}
    return keys.get(param["path"]) or {**param, "type": ["str" if param["type"] == "enum" else param["type"]]}


def _placed(key: str, problems: list[Problem], positions: Positions) -> list[Refusal]:
    return [
        Refusal(
            problem.code,
            problem.message,
            problem.hint,
            f"{key}{problem.at}",
            *_position(f"{key}{problem.at}", positions),
        )
        for problem in problems
    ]


def _set_refusals(name: str, problems: list[Problem]) -> list[Refusal]:
    return [Refusal(item.code, item.message, item.hint, f"hyperparams.{name}{item.at}") for item in problems]


def _position(path: str, positions: Positions) -> tuple[str, int]:
    """File and line of the path, else of what holds it."""
    while path:
        if path in positions:
            return positions[path]
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return "", 0


def _owned(key: str, instead: str, positions: Positions) -> Refusal:
    hint = _("use {instead}").format(instead=instead) if instead else _("take it out; the platform sets it")
    message = _("{key} belongs to the platform").format(key=key)
    return Refusal("key-platform-owned", message, hint, key, *_position(key, positions))


def _unknown(entry: Entry, key: str, known: list[str], positions: Positions) -> Refusal:
    manifest = entry["manifest"]
    message = _("{method} has no key “{key}”").format(method=manifest["name"], key=key)
    hint = nearest_hint(key, known) or _("tp methods {method} lists the main keys").format(method=manifest["name"])
    return Refusal("param-unknown", message, hint, key, *_position(key, positions))


def _unknown_param(entry: Entry, name: str, at: str) -> Refusal:
    manifest = entry["manifest"]
    params = list(manifest["params"])
    message = _("{method} has no parameter “{name}”").format(method=manifest["name"], name=name)
    if not params:
        hint = _("this method has no parameters; put the value into the experiment's own files")
    elif name in (config_keys(entry) or {}):
        hint = _("--set takes the method's main parameters; put {name} into config.yaml").format(name=name)
    else:
        close = nearest(name, params)
        hint = (
            _("did you mean “{name}”?").format(name=close)
            if close
            else _("parameters: {names}").format(names=", ".join(params))
        )
    return Refusal("param-unknown", message, hint, at)


def _missing(entry: Entry, config: Mapping[str, Any], values: Mapping[str, Any], positions: Positions) -> list[Refusal]:
    refusals = []
    for name, param in entry["manifest"]["params"].items():
        if param["required"] and name not in values and _missing_from(config, param["path"], positions):
            message = _("{key} is required: {doc}").format(key=param["path"], doc=prose(entry)["params"][name])
            hint = _("put it into config.yaml, or give --set {name}=…").format(name=name)
            file = next(iter(positions.values()), ("", 0))[0]
            refusals.append(Refusal("param-required", message, hint, param["path"], file))
    return refusals


def _missing_from(config: Mapping[str, Any], path: str, positions: Positions) -> bool:
    if path in config:  # flags are written with their dots
        return config[path] is None
    value: Any = config
    for part in path.split("."):
        if not isinstance(value, dict) or part not in value:
            return path not in positions  # else it stands in the file with a value that was refused there
        value = value[part]
    return value is None
