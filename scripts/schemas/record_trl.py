"""Record the configuration keys of TRL's own classes: names, types, defaults, choices, bounds.

    $(scripts/training-runtime)/bin/python scripts/schemas/record_trl.py packages/tuneplane/src/tuneplane/recipes/catalog/trl/schema-1.16.json… [--check]

Runs in the environment that plays the training image, with what is installed there (trl, transformers, torch, peft); needs nothing of ours.
Every bound of `bounds_trl.py` is proved against that environment first. `--check` writes nothing and fails when the file is not current.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import importlib
import os
import sys
import types
import typing
from typing import Any

from bounds_trl import ALL, BOUNDS, Bound
from recording import keep, paths_of, rendered

CLASSES = {
    "sft": "SFTConfig",
    "dpo": "DPOConfig",
    "kto": "KTOConfig",
    "rm": "RewardConfig",
    "grpo": "GRPOConfig",
    "grpo-judge": "GRPOConfig",
    "rloo": "RLOOConfig",
    "opsd": "SDFTConfig",
}
EXPERIMENTAL = {"SDFTConfig": "trl.experimental.sdft"}  # classes that TRL keeps apart until they are settled
MODEL_CLASS = "ModelConfig"
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")


def main(arguments: list[str]) -> int:
    paths, check = paths_of(arguments)
    prove_bounds()
    return keep(dict.fromkeys(paths, rendered(record())), "the installed TRL", check=check)


def record() -> dict[str, Any]:
    """The schema: `common` holds the keys that are the same in every method, `methods` those of each besides."""
    import peft
    import transformers
    import trl

    model = fields_of(config_class(MODEL_CLASS))
    methods = {method: {**fields_of(config_class(name)), **model} for method, name in CLASSES.items()}
    first, *others = methods.values()
    common = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    return {
        "framework": "trl",
        "version": ".".join(trl.__version__.split(".")[:2]),
        "recorded_from": {"trl": trl.__version__, "transformers": transformers.__version__, "peft": peft.__version__},
        "common": common,
        "methods": {
            method: {key: value for key, value in keys.items() if key not in common} for method, keys in methods.items()
        },
    }


def config_class(name: str) -> Any:
    return getattr(importlib.import_module(EXPERIMENTAL.get(name, "trl")), name)


def fields_of(cls: Any) -> dict[str, dict[str, Any]]:
    """Key -> {type: [names], nullable, default, choices, bounds, source} of one dataclass."""
    hints = typing.get_type_hints(cls)
    return {
        item.name: {
            **describe(hints[item.name]),
            **default_of(item),
            **choices_of(item),
            **bounds_of(cls.__name__, item.name),
        }
        for item in dataclasses.fields(cls)
        if item.init
    }


def describe(hint: Any) -> dict[str, Any]:
    """JSON types of an annotation. An enum is text with choices: TRL turns the text into the member."""
    members = (
        typing.get_args(hint)
        if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
        else (hint,)
    )
    found: dict[str, Any] = {}
    names = set()
    for member in members:
        if member is type(None):
            found["nullable"] = True
        elif isinstance(member, type) and issubclass(member, enum.Enum):
            names.add("str")
            found["choices"] = [entry.value for entry in member]
        elif typing.get_origin(member) is typing.Literal and all(isinstance(it, str) for it in typing.get_args(member)):
            names.add("str")
            found["choices"] = list(typing.get_args(member))
        else:
            names.add(type_name(member))
    return {"type": sorted(names), **found}


def type_name(member: Any) -> str:
    origin, parameters = typing.get_origin(member), typing.get_args(member)
    if origin is typing.Literal:
        return type(parameters[0]).__name__
    if origin in (list, tuple):
        inner = parameters[0]
        return f"list[{'str' if issubclass(inner, enum.Enum) else inner.__name__}]"
    if origin is dict or member is dict or dataclasses.is_dataclass(member):
        return "dict"
    if member in (int, float, bool, str):
        return member.__name__
    raise SystemExit(f"no JSON type for {member!r}; teach scripts/schemas/record_trl.py")


def default_of(item: dataclasses.Field[Any]) -> dict[str, Any]:
    if item.default is not dataclasses.MISSING:
        value = item.default
    elif item.default_factory is not dataclasses.MISSING:
        value = item.default_factory()
    else:
        return {"required": True}
    return {"default": value.value if isinstance(value, enum.Enum) else value}


def choices_of(item: dataclasses.Field[Any]) -> dict[str, Any]:
    choices = item.metadata.get("choices")
    return {"choices": list(choices)} if choices else {}


def bounds_of(class_name: str, key: str) -> dict[str, Any]:
    for bound in BOUNDS:
        if bound.key == key and class_name in bound.classes:
            return {**bound.limits, "source": bound.source}
    return {}


def prove_bounds() -> None:
    """Every bound holds in this environment, or the script ends and says which does not."""
    for bound in BOUNDS:
        for class_name in bound.classes:
            cls = config_class(class_name)
            if bound.key in {item.name for item in dataclasses.fields(cls)}:
                prove(bound, cls)
            elif bound.classes is not ALL:
                raise SystemExit(f"{class_name} has no key {bound.key}")


def prove(bound: Bound, cls: Any) -> None:
    if bound.source == "said" and squeeze(bound.words) not in documentation(cls, bound.key):
        raise SystemExit(f"{cls.__name__}.{bound.key}: its documentation does not say {bound.words!r}")
    for value in bound.out_of_bounds:
        with contextlib.suppress(ValueError):  # what AdamW, DataLoader, numpy, peft and the config classes raise
            bound.refuse(value) if bound.refuse else cls(
                output_dir="unused", use_cpu=True, bf16=False, **bound.given, **{bound.key: value}
            )
            raise SystemExit(f"{cls.__name__}.{bound.key}: {value!r} is not refused")


def documentation(cls: Any, key: str) -> str:
    """The help text of the key and the documentation of the class and those it inherits from, spaces squeezed."""
    item = next(item for item in dataclasses.fields(cls) if item.name == key)
    pages = [str(item.metadata.get("help", ""))] + [base.__doc__ or "" for base in cls.__mro__]
    return squeeze(" ".join(pages))


def squeeze(text: str) -> str:
    """One space for any run of white space; one kind of quotes, since help texts and docstrings use both."""
    return " ".join(text.split()).replace('"', "'")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
