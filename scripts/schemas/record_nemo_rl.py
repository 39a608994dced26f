"""Make the schema of NeMo RL's configuration keys from what is noted down of its repository (`nemo_rl_keys.py`).

    python scripts/schemas/record_nemo_rl.py <schema-0.7.json>… [--check] [--checkout <a checkout of NeMo RL>]

NeMo RL has no package to ask, so the schema is as good as the notes: `--check` fails when a file is not what they say. `--checkout` compares the
notes with the examples of a repository, key by key and default by default, and fails for every difference; its image has one in /opt/nemo-rl.
Needs PyYAML for `--checkout` only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nemo_rl_keys import EXAMPLES, METHODS, ORIGIN
from nemo_rl_parts import Key
from recording import keep, rendered


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="The schema of NeMo RL's configuration keys.")
    parser.add_argument("schemas", nargs="*", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--checkout", type=Path)
    asked = parser.parse_args(arguments)
    code = keep(dict.fromkeys(asked.schemas, rendered(record())), "nemo_rl_keys.py", check=asked.check)
    differences = list(compare(asked.checkout)) if asked.checkout else []
    sys.stderr.writelines(f"{difference}\n" for difference in differences)
    return int(bool(differences) or bool(code))


def record() -> dict[str, Any]:
    """The schema: `common` holds the keys that are the same in every method, `methods` those of each besides."""
    methods = {method: {key: spec_of(value) for key, value in keys.items()} for method, keys in METHODS.items()}
    first, *others = methods.values()
    common = {key: spec for key, spec in first.items() if all(other.get(key) == spec for other in others)}
    return {
        "framework": "nemo-rl",
        "version": ".".join(ORIGIN["version"].split(".")[:2]),
        "recorded_from": ORIGIN,
        "common": common,
        "methods": {
            method: {key: spec for key, spec in keys.items() if key not in common} for method, keys in methods.items()
        },
    }


def spec_of(value: Any) -> dict[str, Any]:
    key = value if isinstance(value, Key) else Key((type(value).__name__,), value)
    spec: dict[str, Any] = {"type": list(key.types), "default": key.default, **key.facts}
    if key.default is None:
        spec["nullable"] = True
    return {**spec, **({"source": "meaning"} if set(key.facts) - {"nullable", "choices"} else {})}


def compare(checkout: Path) -> Iterator[str]:
    """What the examples of a checkout say that the notes do not, and the other way round."""
    import yaml

    for name, keys in EXAMPLES.items():
        path = checkout / "examples/configs" / name
        if not path.is_file():
            yield f"{path}: there is no such file"
            continue
        # PyYAML takes 1e-3 for text, OmegaConf for a number.
        found = dict(leaves(yaml.safe_load(path.read_bytes()), keys))
        for key, value in found.items():
            if key not in keys:
                yield f"{path}: {key} is not noted down"
            elif not same(value, spec_of(keys[key])["default"]):
                yield f"{path}: {key} is {value!r}, noted down as {spec_of(keys[key])['default']!r}"


# Sections whose values are the platform's or of one data set, and not compared.
PLACES = (
    "data.train",
    "data.validation",
    "data.default",
    "logger.",
    "checkpointing.checkpoint_dir",
    "env",
    "data_plane",
)


def leaves(values: Mapping[str, Any], keys: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        key = f"{at}{name}"
        if key.startswith(PLACES):
            continue
        below = any(known.startswith(f"{key}.") for known in keys)
        if isinstance(value, dict) and value and (below or key not in keys):
            yield from leaves(value, keys, f"{key}.")
        elif not (isinstance(value, (dict, list)) and key in keys and not below and free_form(keys[key])):
            yield key, value


def free_form(value: Any) -> bool:
    return isinstance(value, Key) and {"dict", "list"} & set(value.types) != set()


def same(found: Any, noted: Any) -> bool:
    if isinstance(found, str) and isinstance(noted, float):
        return float(found) == noted
    return found == noted


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
