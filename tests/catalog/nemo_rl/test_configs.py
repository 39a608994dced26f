"""What the adapter writes is what NeMo RL's configuration library reads: every method and shape of job, over the examples as they are noted down."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.catalog.capsule import OUT, WORK, capsule, machines, methods_of, shapes_of, template_config
from tests.services.session import ROOT
from tuneplane import adapters
from tuneplane.adapters import Machine
from tuneplane.recipes import index
from tuneplane.recipes.validate import owning

pytestmark = [pytest.mark.catalog, pytest.mark.timeout(300)]
SCRIPTS = ROOT / "scripts/schemas"
SCHEMA = ROOT / "packages/tuneplane/src/tuneplane/recipes/catalog/nemo-rl/schema-0.7.json"
METHODS = methods_of("nemo-rl")
PREFERENCES = ("nemo-rl/dpo", "nemo-rl/rm")
ODD = "a b  'c' \"d\" $HOME {x} e=f==g\nh\ti: - # 训练 é 🚀 \\n 1e-05 \u2028"
ODD_PLACE = "/srv/a b/${x} \\${y} $z/models"


@dataclass
class Case:
    """`wanted`: dotted key -> value that NeMo RL must see."""

    name: str
    command: adapters.Command
    wanted: dict[str, Any] = field(default_factory=dict)


def case(name: str, method: str, config: dict[str, Any], wanted: dict[str, Any], **more: Any) -> Case:
    shape = more.get("shape", "1x8")
    machine = Machine(count=machines(shape), gpus_per_node=1 if shape == "1 GPU" else 8, work_dir=WORK)
    return Case(name, adapters.compile(capsule(method, config, **more), machine), wanted)


def leaves(values: dict[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{at}{name}.")
        else:
            yield f"{at}{name}", value


def tree_of(flat: dict[str, Any]) -> dict[str, Any]:
    """Nested; a section that is noted down as a whole and by its parts consists of its parts."""
    tree: dict[str, Any] = {}
    for key in sorted(flat, key=lambda item: item.count(".")):
        section = tree
        *parents, last = key.split(".")
        for parent in parents:
            if not isinstance(section.get(parent), dict):
                section[parent] = {}
            section = section[parent]
        section[last] = flat[key]
    return tree


def placed(method: str, shape: str) -> dict[str, Any]:
    """What the platform sets for a job of this shape."""
    nodes, gpus = {"1 GPU": (1, 1), "1x8": (1, 8), "2x8": (2, 8), "two pools": (3, 8)}[shape]
    values = {
        "policy.model_name": "/models/base",
        "policy.tokenizer.name": "/models/base",
        "cluster.num_nodes": nodes,
        "cluster.gpus_per_node": gpus,
        "checkpointing.checkpoint_dir": f"{OUT}/checkpoints",
        "logger.log_dir": f"{OUT}/logs",
        "logger.tensorboard_enabled": True,
        "logger.wandb_enabled": False,
        "data.train.data_path": f"{WORK}/lab/experiments/first/data/train.jsonl",
        "data.train.dataset_name": "BinaryPreferenceDataset" if method in PREFERENCES else "ResponseDataset",
        "data.train.split": "train",
        "data.validation.data_path": f"{WORK}/lab/experiments/first/data/validation.jsonl",
        "data.default.prompt_file": None,
    }
    if "rollout" in index.entry(method)["manifest"]["roles"]:
        values["policy.generation.colocated.enabled"] = shape != "two pools"
    if shape == "two pools":
        values["policy.generation.colocated.resources.num_nodes"] = 1
        values["policy.generation.colocated.resources.gpus_per_node"] = 8
    return values


def matrix() -> Iterator[Case]:
    for method in METHODS:
        config = template_config(method)
        for shape in shapes_of(method):
            fixed = index.entry(method)["manifest"]["adapter_options"]["fixed"]
            plain = {key: value for key, value in fixed.items() if "${" not in str(value)}
            wanted = {**dict(leaves(config)), **plain, **placed(method, shape)}
            yield case(f"{method} {shape}", method, config, wanted, shape=shape)


def other_value(spec: dict[str, Any]) -> Any:
    kind = spec["type"][0]
    if "choices" in spec:
        return (
            next(choice for choice in spec["choices"] if choice != spec.get("default"))
            if len(spec["choices"]) > 1
            else spec["choices"][0]
        )
    if kind == "bool":
        return spec["default"] is not True
    if kind == "str":
        return ODD
    if kind == "dict":
        return {"a b": [1, None, ODD], "x": {"y": 1.0e-05}}
    if kind in ("list", "list[str]"):
        return ["q_proj", "a b", "", "训练"]
    low = spec.get("min", spec.get("exclusive_min", 0))
    value = low + 3 if kind in ("int", "list[int]") else low + 1.25e-07
    value = min(value, spec.get("max", value))
    return [value] * spec.get("length", 2) if kind.startswith("list") else value


def keys() -> Iterator[Case]:
    """Every key of every method that a user may set, with another value than its default; those of one method in one file."""
    for method in METHODS:
        entry = index.entry(method)
        owned = entry["manifest"]["adapter_options"]["owned"]
        known = index.config_keys(entry) or {}
        values = {
            key: other_value(spec)
            for key, spec in known.items()
            if not owning(key, owned)
            and not any(name.startswith(f"{key}.") for name in known)
            and not key.startswith(("data.train", "data.validation"))
        }
        yield case(f"{method}: {len(values)} keys", method, tree_of(values), dict(leaves(values)))


def further() -> Iterator[Case]:
    grpo = "nemo-rl/grpo"
    config = template_config(grpo)
    wanted = {"policy.optimizer.kwargs.lr": 3.0e-07, "grpo.max_num_steps": 5, "policy.optimizer.kwargs.eps": 1.0e-08}
    yield case("--set over config.yaml", grpo, config, wanted, hyperparams={"learning_rate": 3.0e-07, "max_steps": 5})
    yield case(
        "odd places", grpo, config,
        {"policy.model_name": ODD_PLACE, "data.train.data_path": f"{ODD_PLACE}.jsonl", "data.train.split_validation_size": 0.05, "data.validation": None},
        base_model=ODD_PLACE, train_data=f"{ODD_PLACE}.jsonl",
    )  # fmt: skip
    tree = {**config, "grpo": {**config["grpo"], "max_num_steps": "${policy.train_global_batch_size}"}}
    yield case("an interpolation", grpo, tree, {"grpo.max_num_steps": config["policy"]["train_global_batch_size"]})
    named = {**config, "data": {**config["data"], "train": {"dataset_name": "gsm8k", "split": "test"}}}
    yield case("a data set by name", grpo, named, {"data.train.dataset_name": "gsm8k", "data.train.split": "test"})
    splits = {"train": {"split": "a"}, "validation": {"split": "b"}}
    yield case(
        "splits", "nemo-rl/sft", template_config("nemo-rl/sft"),
        {"data.train.split": "a", "data.train.data_path": "/d/t", "data.validation.split": "b", "data.validation.data_path": "/d/v"},
        data=splits, train_data="/d/t", validation_data="/d/v",
    )  # fmt: skip
    yield case(
        "no validation", "nemo-rl/dpo", template_config("nemo-rl/dpo"),
        {"data.validation": None, "dpo.val_period": 0}, train_data="/d/t",
    )  # fmt: skip
    yield case(
        "itself as teacher", "nemo-rl/opsd", template_config("nemo-rl/opsd"), {"teacher.model_name": "/models/base"}
    )


def at(values: Any, key: str) -> Any:
    for part in key.split("."):
        if not isinstance(values, dict) or part not in values:
            return "absent"
        values = values[part]
    return values


def write_examples(folder: Path, change: Callable[[str, dict[str, Any]], None] = lambda name, keys: None) -> None:
    """A checkout as far as the notes go: its example files, of the keys and defaults that are noted down."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        examples = importlib.import_module("nemo_rl_keys").EXAMPLES
        spec_of = importlib.import_module("record_nemo_rl").spec_of
    finally:
        sys.path.remove(str(SCRIPTS))
    (folder / "examples/configs").mkdir(parents=True)
    for name, keys in examples.items():
        defaults = {key: spec_of(value)["default"] for key, value in keys.items()}
        change(name, defaults)
        (folder / "examples/configs" / name).write_text(yaml.safe_dump(tree_of(defaults)), encoding="utf-8")


def test_every_configuration_is_read_to_what_was_asked_for(
    framework_env: Callable[[str], Path], tmp_path: Path
) -> None:
    python = framework_env("nemo-rl") / "bin/python"
    write_examples(tmp_path)
    shapes = list(matrix())
    cases = [*shapes, *keys(), *further()]
    files = []
    for number, item in enumerate(cases):
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(item.command.files["config.json"], encoding="utf-8")
    done = subprocess.run(
        [python, Path(__file__).with_name("load_configs.py"), *files],
        capture_output=True, text=True, timeout=200, check=False, env={**os.environ, "NEMO_RL_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    wrong = [
        f"{item.name}: {key} is {at(json.loads(line), key)!r}, not {value!r}"
        for item, line in zip(cases, done.stdout.splitlines(), strict=True)
        for key, value in item.wanted.items()
        if at(json.loads(line), key) != value and not (isinstance(value, str) and "${" in value and "/" not in value)
    ]
    assert not wrong, "\n".join(wrong)
    values = sum(len(item.wanted) for item in cases)
    print(
        f"OmegaConf read {len(cases)} configurations of NeMo RL ({len(shapes)} of methods and shapes), {values} values"
    )


def test_the_schema_is_what_is_noted_down_and_a_difference_is_seen(tmp_path: Path) -> None:
    changed = tmp_path / "schema.json"
    text = SCHEMA.read_text(encoding="utf-8")
    assert '"grpo.val_period"' in text
    changed.write_text(text.replace('"grpo.val_period"', '"grpo.validation_period"', 1), encoding="utf-8")
    done = record(SCHEMA, changed, "--check")
    assert (done.returncode, done.stderr.split(" is not what")[0]) == (1, str(changed))
    assert "\n" not in done.stderr.strip()


def test_a_checkout_is_compared_key_by_key(tmp_path: Path) -> None:
    write_examples(tmp_path / "same")
    assert (record("--checkout", tmp_path / "same").stderr, record("--checkout", tmp_path / "none").returncode) == (
        "",
        1,
    )

    def change(name: str, defaults: dict[str, Any]) -> None:
        if name == "sft.yaml":
            defaults["sft.max_num_steps"] = 61
            defaults["sft.brand_new"] = True

    write_examples(tmp_path / "other", change)
    done = record("--checkout", tmp_path / "other")
    assert done.returncode == 1
    assert sorted(line.split(": ", 1)[1] for line in done.stderr.splitlines()) == [
        "sft.brand_new is not noted down",
        "sft.max_num_steps is 61, noted down as 60",
    ]


def record(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / "record_nemo_rl.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
