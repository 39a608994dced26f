"""What the adapter renders is what OpenRLHF's own command line takes: every method and shape of job, parsed and checked by OpenRLHF itself."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.capsule import OUT, WORK, capsule, machines, methods_of, shapes_of, template_config
from tests.services.session import ROOT
from tuneplane import adapters
from tuneplane.adapters import Machine
from tuneplane.recipes import index
from tuneplane.recipes.validate import owning

pytestmark = [pytest.mark.catalog, pytest.mark.timeout(300)]
SCRIPTS = ROOT / "scripts/schemas"
SCHEMA = ROOT / "packages/tuneplane/src/tuneplane/recipes/catalog/openrlhf/schema-0.11.json"
METHODS = methods_of("openrlhf")
ODD = "a b  'c' \"d\" $HOME ${x} e=f==g\nh\ti 训练 é 🚀 \\n -- \u2028"


@dataclass
class Case:
    """`wanted`: flag -> value that OpenRLHF must see; `argv` of the trainer alone."""

    name: str
    module: str
    argv: list[str]
    wanted: dict[str, Any] = field(default_factory=dict)


def trainer(command: adapters.Command) -> tuple[str, list[str]]:
    """The trainer's module and its own arguments, out of the launcher's."""
    argv = list(command.argv)
    at = next(number for number, item in enumerate(argv) if item.startswith("openrlhf.cli."))
    return argv[at].rpartition(".")[2], argv[at + 1 :]


def case(name: str, method: str, config: dict[str, Any], wanted: dict[str, Any], **more: Any) -> Case:
    shape = more.get("shape", "1x8")
    gpus = {"1 GPU": 1}.get(shape, 8)
    machine = Machine(count=machines(shape), gpus_per_node=gpus, main_ip="10.0.0.5", work_dir=WORK)
    module, argv = trainer(adapters.compile(capsule(method, config, **more), machine))
    return Case(name, module, argv, wanted)


def nested(flags: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for flag, value in flags.items():
        section = tree
        *parents, last = flag.split(".")
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = value
    return tree


def shared_dir(shape: str) -> str:
    return f"{OUT}/experiment" if machines(shape) > 1 else f"{WORK}/lab/experiments/first"


def placed(method: str, shape: str) -> dict[str, Any]:
    """What the platform sets for a job of this shape."""
    if "rollout" not in index.entry(method)["manifest"]["roles"]:
        return {
            "model.model_name_or_path": "/models/base",
            "data.dataset": "./data/train.jsonl",
            "eval.dataset": "./data/validation.jsonl",
            "ckpt.path": f"{OUT}/checkpoints",
            "ckpt.output_dir": f"{OUT}/model",
            "logger.tensorboard_dir": f"{OUT}/tensorboard",
        }
    nodes, gpus, engines = {"1 GPU": (1, 1, 1), "1x8": (1, 8, 8), "2x8": (2, 8, 16), "two pools": (2, 8, 8)}[shape]
    two = shape == "two pools"
    return {
        **{f"{model}.num_nodes": nodes for model in ("actor", "ref", "critic", "reward")},
        **{f"{model}.num_gpus_per_node": gpus for model in ("actor", "ref", "critic", "reward")},
        "actor.model_name_or_path": "/models/base",
        "vllm.num_engines": engines,
        "train.colocate_all": True,
        "train.async_enable": two,
        "vllm.enable_sleep": not two,
        "data.prompt_dataset": f"{shared_dir(shape)}/data/train.jsonl",
        "eval.dataset": f"{shared_dir(shape)}/data/validation.jsonl",
        "reward.remote_url": [f"{shared_dir(shape)}/reward_func.py"],
        "ckpt.path": f"{OUT}/checkpoints",
        "ckpt.output_dir": f"{OUT}/model",
    }


def other_value(spec: dict[str, Any]) -> Any:
    """A value that is not the default and that the schema takes."""
    kind = spec["type"][0]
    if "choices" in spec:
        return next(choice for choice in spec["choices"] if choice != spec.get("default"))
    if kind == "bool":
        return not spec["default"]
    if kind == "str":
        return ODD
    if kind == "list[str]":
        return ["q_proj", "a b", "", "-x y"[1:], "训练"]
    low = spec.get("min", spec.get("exclusive_min", 0))
    value = low + 3 if kind.endswith("int") or kind == "int" else 0.25 if spec.get("max") == 1 else low + 1.25e-07
    value = min(value, spec.get("max", value))
    return [value / 2, value] if kind == "list[float]" else value


# Flags whose other value OpenRLHF's own checks tie to further flags; each is tried with what it needs.
NEEDED: dict[str, dict[str, Any]] = {
    "rollout.vllm_generate_batch_size": {"rollout.batch_size": 64},
    "rollout.batch_size": {"rollout.micro_batch_size": 1},
    "train.dynamic_batch_enable": {"ds.packing_samples": True, "rollout.max_tokens_per_gpu": 4096},
    "data.max_images_per_prompt": {"reward.remote_url": "http://scores"},
    "data.multiturn": {"data.apply_chat_template": True},
    "ds.ring_attn_size": {"ds.packing_samples": True},
}
# train.partial_rollout_enable is for two pools; data.input_template without {} is put aside by OpenRLHF; model.ipo_enable and others are plain.
SKIPPED = {"train.partial_rollout_enable", "data.input_template", "train.agent_func_path", "reward.remote_url"}


def matrix() -> Iterator[Case]:
    for method in METHODS:
        config = template_config(method)
        wanted = {flag: value for flag, value in config.items() if flag != "reward.remote_url" and value is not None}
        for shape in shapes_of(method):
            everything = {**wanted, **placed(method, shape)}
            yield case(f"{method} {shape}", method, config, everything, shape=shape)
        yield case(f"{method} nested", method, nested(config), wanted)


def flags() -> Iterator[Case]:
    """Every flag of every method that a user may set, one by one, with another value than its default."""
    for method in METHODS:
        entry = index.entry(method)
        owned = entry["manifest"]["adapter_options"]["owned"]
        template = template_config(method)
        for flag, spec in (index.config_keys(entry) or {}).items():
            if (
                owning(flag, owned)
                or flag in SKIPPED
                or (flag == "data.max_images_per_prompt" and method == "openrlhf/ppo")
            ):
                continue
            value = other_value(spec)
            needed = NEEDED.get(flag, {})
            yield case(f"{method} {flag}", method, {**template, **needed, flag: value}, {flag: value})


def further() -> Iterator[Case]:
    grpo, sft = "openrlhf/grpo", "openrlhf/sft"
    set_values = {"learning_rate": 3.0e-07, "n_samples_per_prompt": 4, "max_new_tokens": None}
    wanted = {"actor.adam.lr": 3.0e-07, "rollout.n_samples_per_prompt": 4, "rollout.max_new_tokens": None}
    yield case("--set over config.yaml", grpo, template_config(grpo), wanted, hyperparams=set_values)
    yield case("--set over nested", grpo, nested(template_config(grpo)), wanted, hyperparams=set_values)
    config = {"reward.clip_range": [-1.0e-05, 1], "muon.nesterov": False, "adam.lr": 1}
    rl = {**template_config("openrlhf/ppo"), "reward.clip_range": [-1.0e-05, 10], "actor.muon.nesterov": False}
    yield case(
        "negative numbers", "openrlhf/ppo", rl, {"reward.clip_range": [-1.0e-05, 10.0], "actor.muon.nesterov": False}
    )
    yield case(
        "a switch that is on", sft, {"muon.nesterov": False, "adam.lr": 1}, {"muon.nesterov": False, "adam.lr": 1.0}
    )
    del config
    resumed = f"{OUT[:-5]}1/out/checkpoints"
    paths = {"resume_from": f"{resumed}/global_step8", "train_data": "/data/a b.jsonl", "validation_data": "/data/v"}
    split = {"validation": {"split": "held out"}}
    yield case(
        "resumed, with data", sft, template_config(sft),
        {"ckpt.load_enable": True, "data.dataset": "/data/a b.jsonl", "eval.dataset": "/data/v", "eval.split": "held out"},
        data=split, **paths,
    )  # fmt: skip
    config = {**template_config(grpo), "reward.remote_url": None, "reward.model_name_or_path": "org/rm"}
    yield case("a reward model", grpo, config, {"reward.model_name_or_path": "org/rm", "eval.dataset": None})
    config = {**template_config(grpo), "train.partial_rollout_enable": True}
    yield case("partial rollouts", grpo, config, {"train.partial_rollout_enable": True}, shape="two pools")


def plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@pytest.fixture(scope="module")
def python(framework_env: Callable[[str], Path]) -> Path:
    return framework_env("openrlhf") / "bin/python"


def test_every_command_line_is_parsed_to_what_was_asked_for(python: Path, tmp_path: Path) -> None:
    shapes = list(matrix())
    cases = [*shapes, *flags(), *further()]
    file = tmp_path / "cases.jsonl"
    file.write_text("".join(json.dumps({"module": item.module, "argv": item.argv}) + "\n" for item in cases))
    done = subprocess.run(
        [python, SCRIPTS / "openrlhf_cli.py", file], capture_output=True, text=True, timeout=240, check=True
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = []
    for item, answer in zip(cases, answers, strict=True):
        if "error" in answer:
            wrong.append(f"{item.name}: {answer['error']}")
            continue
        wrong += [
            f"{item.name}: {flag} is {answer['values'].get(flag)!r}, not {value!r}"
            for flag, value in item.wanted.items()
            if answer["values"].get(flag, "absent") != plain(value)
        ]
    assert not wrong, "\n".join(wrong)
    print(
        f"OpenRLHF parsed {len(cases)} command lines: {len(shapes)} of methods and shapes, {len(cases) - len(shapes)} of flags"
    )


def test_the_schema_is_what_the_installed_openrlhf_says_and_a_difference_is_seen(python: Path, tmp_path: Path) -> None:
    text = SCHEMA.read_text(encoding="utf-8")
    changed = []
    for number, (right, wrong) in enumerate(
        [('"ds.zero_stage": {', '"ds.zero": {'), ('"default": 5e-06', '"default": 6e-06')]
    ):
        assert right in text
        path = tmp_path / f"schema-{number}.json"
        path.write_text(text.replace(right, wrong, 1), encoding="utf-8")
        changed.append(path)
    command = [python, SCRIPTS / "record_openrlhf.py", SCHEMA, *changed, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stderr
    assert [line.split(" is not what")[0] for line in done.stderr.splitlines()] == [str(path) for path in changed]


def test_the_reward_function_of_the_templates_scores_answers(python: Path) -> None:
    """As OpenRLHF's engines call it: query = prompt and answer, special tokens included."""
    files = {
        index.CATALOG / method / "template/reward_func.py"
        for method in METHODS
        if method.split("/")[1] not in ("sft", "dpo", "rm")
    }
    assert len({file.read_bytes() for file in files}) == 1
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from reward_func import reward_func\n"
        "prompts = ['<|user|>7 + 4?<|assistant|>'] * 3\n"
        "answers = ['11<|end|>', 'It is 11.', '7 and 4 make 12']\n"
        "found = reward_func([p + a for p, a in zip(prompts, answers)], prompts, ['11'] * 3)\n"
        "print(found['rewards'].tolist(), found['scores'].tolist())"
    )
    command = [python, "-B", "-c", code, next(iter(files)).parent]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[1.5, 1.0, 0.0] [1.0, 1.0, 0.0]"
