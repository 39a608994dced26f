"""What the adapter renders is what torchrun and ms-swift take: every method, shape of job and flag, parsed by their own parsers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.capsule import OUT, POOLS, WORK, capsule, machines, methods_of, template_config
from tests.services.session import ROOT
from tuneplane import adapters
from tuneplane.adapters import Machine
from tuneplane.recipes import index
from tuneplane.recipes.validate import check_config, owning

pytestmark = [pytest.mark.catalog, pytest.mark.timeout(600)]
SCRIPTS = ROOT / "scripts/schemas"
METHODS = methods_of("ms-swift")
SHAPES = ("1 GPU", "1x8", "2x8")
ODD = "-a b  'c' \"d\" $HOME ${x} $(id) e=f==g\nh\r\n\ti 训练 é 🚀 \\n -- \u2028"
ODD_DICT = {"--k v": [1, -1e-05, True, None, {"=": 'ü "q"\n'}], "": "$HOME"}
# Megatron's arguments check themselves against CUDA and the process groups.
ON_CPU = [method for method in METHODS if "megatron" not in method]


@dataclass
class Case:
    """`wanted`: flag -> value that ms-swift must see; `launcher`: the same of torchrun."""

    name: str
    argv: list[str]
    wanted: dict[str, Any] = field(default_factory=dict)
    launcher: dict[str, Any] = field(default_factory=dict)
    whole: bool = False


def case(name: str, method: str, config: dict[str, Any], wanted: dict[str, Any], rank: int = 0, **more: Any) -> Case:
    shape = more.setdefault("shape", "1 GPU")
    _, count, gpus, _ = POOLS[shape][0]
    machine = Machine(rank, count, gpus, "10.0.0.5", 29511, work_dir=WORK)
    argv = list(adapters.compile(capsule(method, config, **more), machine).argv)
    launcher = {
        "nnodes": str(count),
        "nproc_per_node": str(gpus),
        "node_rank": rank,
        "master_addr": "10.0.0.5",
        "master_port": 29511,
        "module": True,
        "training_script": index.entry(method)["manifest"]["entrypoint"]["value"],
    }
    return Case(name, argv, wanted, launcher)


PLACED = {
    "model": "/models/base",
    "dataset": ["data/train.jsonl"],
    "val_dataset": ["data/validation.jsonl"],
    "output_dir": f"{OUT}/checkpoints",
    "add_version": False,
    "check_model": False,
}


def shapes() -> Iterator[Case]:
    for method in METHODS:
        config = template_config(method)
        wanted = {**config, **PLACED, **index.entry(method)["manifest"]["adapter_options"]["fixed"]}
        for shape in SHAPES:
            for rank in range(machines(shape)):
                yield case(f"{method} {shape} rank {rank}", method, config, wanted, rank, shape=shape)


def other_value(spec: dict[str, Any]) -> Any:
    """A value that is not the default, that the schema takes, and that is hard to carry."""
    kind = spec["type"][-1]  # of text or an object, the object
    default = spec.get("default")
    if "choices" in spec:
        # Some have one choice only.
        choice = next((item for item in reversed(spec["choices"]) if item != default), default)
        return [choice] if kind.startswith("list[") else choice
    if kind == "bool":
        return default is not True
    if kind in ("str", "dict"):
        return ODD if kind == "str" else ODD_DICT
    if kind == "list[str]":
        return [ODD[1:], "", "a=b", "{x}", "训练"]
    low, high = spec.get("min", spec.get("exclusive_min", -7)), spec.get("max", spec.get("exclusive_max"))
    whole = "float" not in kind
    value = low + 1 if whole else low + 1.25e-07
    if value == default:
        value += 1
    assert high is None or value <= high
    if not kind.startswith("list["):
        return value
    return [value, value + 1] if whole else [-1e-05, -3.0, value]


def flags() -> Iterator[Case]:
    """Every flag of every method that a user may set, with another value than its default, all in one command line."""
    for method in METHODS:
        entry = index.entry(method)
        owned = entry["manifest"]["adapter_options"]["owned"]
        keys = {key: spec for key, spec in (index.config_keys(entry) or {}).items() if not owning(key, owned)}
        config = {key: other_value(spec) for key, spec in keys.items()}
        assert check_config(entry, config, {}) == []
        yield case(f"{method} every flag", method, config, config)
        single = {
            key: ["-x y"] for key, spec in keys.items() if spec["type"] == ["list[str]"] and "choices" not in spec
        }
        yield case(f"{method} lists of one", method, single, single)
        nothing = {key: None for key, spec in keys.items() if spec.get("nullable")}
        yield case(f"{method} null", method, {**template_config(method), **nothing}, nothing)


def further() -> Iterator[Case]:
    values = {"learning_rate": 3.0e-07, "lora_rank": 4, "system": "", "eval_steps": None}
    wanted = {"learning_rate": 3.0e-07, "lora_rank": 4, "system": "", "eval_steps": None}
    yield case("--set over config.yaml", "ms-swift/sft", template_config("ms-swift/sft"), wanted, hyperparams=values)
    checkpoint = f"{OUT[:-5]}1/out/checkpoints/checkpoint-8"
    paths: dict[str, Any] = {"resume_from": checkpoint, "train_data": "/data/a b.jsonl", "validation_data": "/data/v"}
    data = {"dataset": ["/data/a b.jsonl"], "val_dataset": ["/data/v"]}
    for method, tuner, resumed in (
        ("ms-swift/dpo", "lora", {"resume_from_checkpoint": checkpoint}),
        ("ms-swift/megatron-sft", "full", {"mcore_model": checkpoint, "finetune": False}),
        ("ms-swift/megatron-dpo", "lora", {"mcore_adapter": checkpoint, "finetune": False}),
    ):
        config = {**template_config(method), "tuner_type": tuner}
        yield case(f"{method} resumed, with data", method, config, {**data, **resumed}, **paths)
    adapter = {"model": "/models/base", "adapters": ["/runs/0/checkpoint-8"]}
    yield case("--init-from", "ms-swift/sft", {}, adapter, init_model="/runs/0/checkpoint-8")


def tiny_models(folder: Path) -> dict[str, Any]:
    """Just what ms-swift reads of a model before it loads it."""
    config = {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 2048, "dtype": "float32",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return {"base_model": str(folder)}


def whole(folder: Path) -> Iterator[Case]:
    """Each template on a CPU, with ms-swift's own checks of the arguments against each other and the model."""
    paths = tiny_models(folder)
    for method in ON_CPU:
        config = {**template_config(method), "torch_dtype": "float32"}
        config.pop("external_plugins", None)  # read from the experiment's folder
        named = {"model_type": "qwen2", "template": "qwen2_5"}  # many models have this configuration
        made = capsule(method, {**config, **named}, **paths, out_dir=str(folder / "out"))
        argv = adapters.compile(made, Machine(work_dir=WORK)).argv
        yield Case(f"{method} whole", list(argv), {"fp16": False, "bf16": False}, whole=True)


def as_parsed(value: Any) -> Any:
    """An object travels as JSON text, which ms-swift reads later."""
    return json.dumps(value) if isinstance(value, dict) else value


@pytest.fixture(scope="module")
def python(framework_env: Callable[[str], Path]) -> Path:
    return framework_env("ms-swift") / "bin/python"


def test_every_command_line_is_parsed_to_what_was_asked_for(python: Path, tmp_path: Path) -> None:
    of_shapes = list(shapes())
    cases = [*of_shapes, *flags(), *further(), *whole(tmp_path)]
    file = tmp_path / "cases.jsonl"
    file.write_text("".join(json.dumps({"argv": item.argv, "whole": item.whole}) + "\n" for item in cases))
    done = subprocess.run(
        [python, SCRIPTS / "ms_swift_cli.py", file], capture_output=True, text=True, timeout=500, check=False,
        env={"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "MODELSCOPE_CACHE": str(tmp_path), "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = []
    for item, answer in zip(cases, answers, strict=True):
        if "error" in answer:
            wrong.append(f"{item.name}: {answer['error']}")
            continue
        found = {**answer["values"], **{f"torchrun {name}": value for name, value in answer["launcher"].items()}}
        wanted = {**item.wanted, **{f"torchrun {name}": value for name, value in item.launcher.items()}}
        wrong += [f"{item.name}: left over: {answer['rest']}"] if answer["rest"] else []
        wrong += [
            f"{item.name}: {flag} is {found.get(flag)!r}, not {value!r}"
            for flag, value in wanted.items()
            if found.get(flag, "absent") != as_parsed(value)
        ]
    assert not wrong, "\n".join(wrong)
    assert len(of_shapes) == 4 * len(METHODS) == 52
    print(
        f"ms-swift parsed {len(cases)} command lines: {len(of_shapes)} of methods and shapes, {sum(len(c.wanted) for c in cases)} values"
    )
