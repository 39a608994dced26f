"""Record the configuration keys of verl's own Hydra trees: names, types, defaults, choices, bounds.

    $(scripts/framework-env verl)/bin/python scripts/schemas/record_verl.py packages/tuneplane/src/tuneplane/recipes/catalog/verl/schema-0.9.json [--check]

Runs in verl's environment; needs nothing of ours. A key is a dotted path to a leaf of the composed tree (`ppo_trainer` for all methods of
reinforcement learning, `sft_trainer_engine`) or to a field that only the dataclass named by the section's `_target_` has. The types are the
dataclasses' where there is one, else the default's. A section that is empty takes keys of any name and is a key itself. Bounds are those of
`bounds_verl.py`, proved first. `--check` writes nothing and fails when the file is not current.
"""

from __future__ import annotations

import dataclasses
import sys
import types
import typing
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bounds_verl import BOUNDS, REGISTRIES, RL, SFT, Bound
from recording import keep, paths_of, rendered

# The keys of each tree are recorded under one method; the other recipes name it in `keys_of`.
TREES = {"ppo": RL, "sft": SFT}
# Old names that verl still moves to `reward.…` when they are set (`legacy_reward_impl.yaml`).
LEGACY = ("reward_model", "custom_reward_function", "sandbox_fusion")
# Fields that verl fills in itself when it makes the objects.
FILLED_IN = (
    "model_config",
    "global_batch_info",
    "loss_settings",
    "hf_config",
    "generation_config",
    "processor",
    "tokenizer",
)


def main(arguments: list[str]) -> int:
    paths, check = paths_of(arguments)
    warnings.simplefilter("ignore")
    prove()
    return keep(dict.fromkeys(paths, rendered(record())), "the installed verl", check=check)


def record() -> dict[str, Any]:
    return {
        "framework": "verl",
        "version": ".".join(version("verl").split(".")[:2]),
        "recorded_from": {name: version(name) for name in ("verl", "hydra-core", "omegaconf")},
        "common": {},
        "methods": {method: keys_of(tree) for method, tree in TREES.items()},
    }


def config_dir() -> Path:
    import verl.trainer

    return Path(verl.trainer.__file__).parent / "config"


def keys_of(tree: str) -> dict[str, Any]:
    """Key -> spec of one composed tree, with what is known of its values besides."""
    from hydra import compose, initialize_config_dir

    with initialize_config_dir(config_dir=str(config_dir()), version_base=None):
        config = compose(tree)
    keys = dict(leaves(config, ""))
    for bound in (bound for bound in BOUNDS if bound.tree == tree):
        spec = keys.setdefault(bound.key, {}) if "type" in bound.limits else keys[bound.key]
        spec.update({**bound.limits, "source": bound.source})
    for key, names in REGISTRIES.items():
        if key in keys:
            keys[key].update({"choices": names(), "source": "registry"})
    return {key: spec for key, spec in keys.items() if key.split(".")[0] not in LEGACY}


def leaves(config: Any, at: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key below a section, and the fields that its dataclass has besides."""
    from omegaconf import DictConfig, OmegaConf

    hints = fields_of(OmegaConf.select(config, "_target_")) if "_target_" in config else {}
    shown = [name for name in config if name != "_target_"]
    for name in shown:
        path = f"{at}{name}"
        raw = config._get_node(name)
        if isinstance(raw, DictConfig) and not raw._is_none() and not raw._is_interpolation():
            if len(raw):
                yield from leaves(raw, f"{path}.")
            else:
                yield path, {"type": ["dict"], "default": {}}
        else:
            yield path, leaf(config, str(name), hints.get(name))
    for name, item in hints.items():
        if name not in shown:  # `in config` is false of what is still missing
            yield from field_keys(f"{at}{name}", item)


def leaf(config: Any, name: str, item: dataclasses.Field[Any] | None) -> dict[str, Any]:
    from omegaconf import MISSING, OmegaConf

    spec = described(item) if item is not None else {}
    if OmegaConf.is_missing(config, name) or (config._get_node(name)._value() == MISSING):
        return {"type": ["str"], **spec, "required": True}
    value = plain(config, name)
    if value is UNKNOWN:
        return {"type": ["any"], "nullable": True, **spec}
    if value is None:
        return {"type": ["any"], **spec, "nullable": True, "default": None}
    if "any" in spec.get("type", ["any"]) or not fits(value, spec["type"]):
        spec = {**spec, "type": sorted({*(spec.get("type") or []), type_of(value)} - {"any"})}
    return {**spec, "default": value}


UNKNOWN = object()


def plain(config: Any, name: str) -> Any:
    """The default as JSON has it; `UNKNOWN` when it points to something that is not set."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        value = config[name]
        return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
    except OmegaConfBaseException:
        return UNKNOWN


def field_keys(path: str, item: dataclasses.Field[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A field that the tree does not show: itself, or those of the dataclass it holds."""
    hint = item.type
    if item.name in FILLED_IN:
        return
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        for inner in fields_by_type(hint).values():
            yield from field_keys(f"{path}.{inner.name}", inner)
        return
    spec = described(item)
    if item.default is not dataclasses.MISSING and json_value(item.default):
        spec["default"] = item.default
    elif item.default_factory is not dataclasses.MISSING and json_value(made := item.default_factory()):
        spec["default"] = made
    if spec.get("default", UNKNOWN) is None:
        spec["nullable"] = True
    yield path, spec


def json_value(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(json_value, value))
    return value is None or isinstance(value, bool | int | float | str) or value == {}


def fields_of(target: str | None) -> dict[str, dataclasses.Field[Any]]:
    from hydra.utils import get_class

    return fields_by_type(get_class(target)) if target else {}


def fields_by_type(cls: Any) -> dict[str, dataclasses.Field[Any]]:
    """The fields that a configuration may set, with their types resolved."""
    if not dataclasses.is_dataclass(cls):
        return {}
    hints = typing.get_type_hints(cls)
    found = {}
    for item in dataclasses.fields(cls):
        if item.init and not item.name.startswith("_"):
            item.type = hints[item.name]
            found[item.name] = item
    return found


def described(item: dataclasses.Field[Any]) -> dict[str, Any]:
    members = (
        typing.get_args(item.type)
        if isinstance(item.type, types.UnionType) or typing.get_origin(item.type) is typing.Union
        else (item.type,)
    )
    spec: dict[str, Any] = {"type": sorted({name_of(member) for member in members if member is not type(None)})}
    if type(None) in members:
        spec["nullable"] = True
    literals = [
        value for member in members if typing.get_origin(member) is typing.Literal for value in typing.get_args(member)
    ]
    return {**spec, "choices": literals} if literals and all(isinstance(value, str) for value in literals) else spec


def name_of(member: Any) -> str:
    origin, parameters = typing.get_origin(member), typing.get_args(member)
    if origin is typing.Literal:
        return type(parameters[0]).__name__
    if origin in (list, tuple) or member in (list, tuple):
        inner = parameters[0] if parameters else None
        return f"list[{inner.__name__}]" if inner in (int, float, str) else "list"
    if origin is dict or member is dict or dataclasses.is_dataclass(member):
        return "dict"
    return member.__name__ if member in (int, float, bool, str) else "any"


def type_of(value: Any) -> str:
    if isinstance(value, list):
        kinds = {type(item).__name__ for item in value}
        return f"list[{kinds.pop()}]" if len(kinds) == 1 and kinds <= {"int", "float", "str"} else "list"
    return type(value).__name__


def fits(value: Any, kinds: list[str]) -> bool:
    found = type_of(value)
    return found in kinds or (found == "int" and "float" in kinds) or (found.startswith("list") and "list" in kinds)


def prove() -> None:
    """Every `refused` and `said` holds in this environment, or the script ends and says which does not."""
    for bound in BOUNDS:
        if bound.source == "said":
            text = " ".join((config_dir() / bound.quoted).read_text(encoding="utf-8").split())
            if bound.words not in text:
                raise SystemExit(f"{bound.key}: {bound.quoted} does not say {bound.words!r}")
        if bound.refuse is not None:
            prove_refused(bound)


def prove_refused(bound: Bound) -> None:
    assert bound.refuse is not None
    for value in bound.limits["choices"]:
        if bound.key.endswith(("kl_penalty", "kl_loss_type")) and value.startswith("full"):
            continue  # needs the whole distribution
        bound.refuse(value)
    try:
        bound.refuse(bound.bad)
    except (ValueError, RuntimeError, AssertionError):  # also what says that it is not implemented
        return
    raise SystemExit(f"{bound.key}: {bound.bad!r} is not refused")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
