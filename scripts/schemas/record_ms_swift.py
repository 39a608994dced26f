"""Record the flags of ms-swift's own parsers: names, types, defaults, choices, bounds.

    $(scripts/framework-env ms-swift)/bin/python scripts/schemas/record_ms_swift.py packages/tuneplane/src/tuneplane/recipes/catalog/ms-swift/schema-4.6.json… [--check]

Runs in the environment of requirements/framework-ms-swift.txt and needs nothing of ours. The flags are read from the parsers that
`swift.cli.sft`, `swift.cli.rlhf` and `swift.cli._megatron.*` make (transformers' HfArgumentParser over swift's argument classes). `mcore_bridge`
needs transformer-engine, which needs CUDA: its modules are empty here (`ms_swift_parsers.py`), and no flag comes from it.
`--check` writes nothing and fails when a file is not current.
"""

from __future__ import annotations

import argparse
import json
import sys
import typing
from enum import Enum
from importlib.metadata import version
from typing import Any

from bounds_ms_swift import BOUNDS, CHOICES, REQUIRED
from ms_swift_parsers import argument_classes, make_parser
from recording import keep, paths_of

# Method of the schema -> entry point. `rlhf` and `megatron-rlhf` are for the methods that have no choices of their own (`keys_of`).
METHODS = {
    "sft": "sft",
    "reranker": "sft",
    "rlhf": "rlhf",
    "dpo": "rlhf",
    "cpo": "rlhf",
    "grpo": "rlhf",
    "megatron-sft": "megatron-sft",
    "megatron-rlhf": "megatron-rlhf",
    "megatron-grpo": "megatron-rlhf",
}
# Their type cannot be made from one text, so no command line can set them.
NOT_FLAGS = {"help", "liger_kernel_config", "parallelism_config"}


def main(arguments: list[str]) -> int:
    paths, check = paths_of(arguments)
    return keep(dict.fromkeys(paths, render(record())), "the installed ms-swift", check=check)


def record() -> dict[str, Any]:
    """`common` holds the keys that are the same in every method, `methods` those of each besides."""
    flags = {name: flags_of(cls) for name, cls in argument_classes().items()}
    methods = {method: narrowed(method, flags[entry]) for method, entry in METHODS.items()}
    first, *others = methods.values()
    common = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    return {
        "framework": "ms-swift",
        "version": "4.6",
        "recorded_from": {name: version(name) for name in ("ms-swift", "transformers", "trl", "peft", "megatron-core")},
        "common": common,
        "methods": {
            method: {key: value for key, value in keys.items() if key not in common} for method, keys in methods.items()
        },
    }


def flags_of(cls: Any) -> dict[str, dict[str, Any]]:
    hints = typing.get_type_hints(cls)
    return {
        action.dest: describe(action, hints[action.dest])
        for action in make_parser(cls)._actions
        if action.dest not in NOT_FLAGS and not action.dest.startswith("_") and action.nargs != 0
    }


def describe(action: argparse.Action, hint: Any) -> dict[str, Any]:
    """{type, nullable, default, choices, min, max} of one flag. Null means "leave the flag away", so it is for flags without a default."""
    default = plain(action.default)
    found: dict[str, Any] = {**types_of(action, hint), "default": default}
    if default is None:
        found["nullable"] = True
    return found


def types_of(action: argparse.Action, hint: Any) -> dict[str, Any]:
    name = getattr(action.type, "__name__", "")
    if action.choices is not None:
        return choices_of([item for item in action.choices if item is not None])
    if name == "string_to_bool":
        return {"type": ["bool"]}
    if isinstance(action.type, type) and issubclass(action.type, Enum):
        choices = {"choices": [item.value for item in action.type]}
        return {"type": ["list[str]" if action.nargs == "+" else "str"], **choices}
    if name not in ("int", "float", "str", "Path"):
        raise SystemExit(f"no JSON type for {action.dest}: {action.type!r}; teach scripts/schemas/record_ms_swift.py")
    plain_name = "str" if name == "Path" else name
    if action.nargs == "+":
        return {"type": [f"list[{plain_name}]"]}
    return {"type": ["str", "dict"]} if dict in members(hint) else {"type": [plain_name]}


def choices_of(choices: list[Any]) -> dict[str, Any]:
    texts, numbers = [item for item in choices if isinstance(item, str)], [i for i in choices if isinstance(i, int)]
    found: dict[str, Any] = {"type": (["int"] if numbers else []) + (["str"] if texts else [])}
    if texts:
        found["choices"] = texts
    if numbers:
        found |= {"min": min(numbers), "max": max(numbers)}
    return found


def members(hint: Any) -> set[Any]:
    """The types of a union, without their parameters."""
    parts = typing.get_args(hint) or (hint,)
    return {typing.get_origin(part) or part for part in parts}


def plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return plain(value.value)
    if value is argparse.SUPPRESS or value is None:
        return None
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def narrowed(method: str, flags: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The flags with bounds, and with what is checked after the parser."""
    keys = {key: dict(spec) for key, spec in flags.items()}
    for bound in BOUNDS:
        for key in bound.keys:
            if key in keys and (not bound.methods or method in bound.methods):
                if not {"int", "float", "list[int]", "list[float]"} & set(keys[key]["type"]):
                    raise SystemExit(f"{method}: {key} is no number, so it has no bounds")
                keys[key] |= {**bound.limits, "source": bound.source}
    for key, choices in CHOICES.get(method, {}).items():
        if keys[key].get("choices") is not None and not set(choices) <= set(keys[key]["choices"]):
            raise SystemExit(f"{method}: {key} does not take {choices}")
        keys[key]["choices"] = choices
    keys |= {key: {**keys[key], **also} for key, also in late_choices(keys).items()}
    for key in REQUIRED.get(method, ()):
        keys[key] = {name: value for name, value in keys[key].items() if name not in ("default", "nullable")}
        keys[key]["required"] = True
    return keys


def late_choices(keys: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Texts that transformers and ms-swift check against a list of their own, read from there."""
    from swift.arguments import get_supported_tuners
    from transformers.trainer_utils import SchedulerType

    lists = {
        "lr_scheduler_type": [item.value for item in SchedulerType],
        "tuner_type": sorted(get_supported_tuners()),
    }
    return {
        key: {"choices": lists[key]}
        for key in lists
        if key in keys and keys[key]["type"] == ["str"] and "choices" not in keys[key]
    }


def render(schema: dict[str, Any]) -> str:
    """JSON with a flag a line: small, and a diff names the flags that changed."""
    head = {key: value for key, value in schema.items() if key not in ("common", "methods")}
    parts = [f"{json.dumps(key)}: {json.dumps(value, sort_keys=True)}" for key, value in sorted(head.items())]
    parts.append(f'"common": {table(schema["common"])}')
    methods = ",\n".join(f"{json.dumps(method)}: {table(keys)}" for method, keys in schema["methods"].items())
    parts.append(f'"methods": {{\n{methods}\n}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def table(keys: dict[str, Any]) -> str:
    lines = (
        f" {json.dumps(key)}: {json.dumps(spec, sort_keys=True, ensure_ascii=False)}"
        for key, spec in sorted(keys.items())
    )
    return "{\n" + ",\n".join(lines) + "\n}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
