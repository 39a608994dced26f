"""What the adapter renders is what accelerate and TRL take: every method, shape of job and key, parsed by their own parsers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.capsule import OUT, POOLS, capsule, machines, methods_of, shapes_of, template_config
from tests.services.session import ROOT
from tuneplane import adapters
from tuneplane.recipes import index
from tuneplane.recipes.validate import check_config, owning

pytestmark = [pytest.mark.catalog, pytest.mark.timeout(600)]
METHODS = methods_of("trl")
ODD = "a b  'c' \"d\" $HOME $(id) e=f==g\nh\r\n\ti 训练 é 🚀 \\n -- \u2028"
# Keys whose other value needs something that is not here (a file, another library, a card), or contradicts another key.
NEEDS_MORE = {
    "accelerator_config", "activation_checkpointing", "auto_find_batch_size", "bf16", "bf16_full_eval",
    "dataloader_prefetch_factor", "debug", "deepspeed", "distillation_mode", "do_eval", "do_predict", "do_train",
    "eval_on_start", "eval_strategy", "fp16", "fp16_full_eval", "fsdp", "fsdp_config", "generation_batch_size",
    "hub_strategy", "include_num_input_tokens_seen", "load_best_model_at_end", "load_in_4bit", "load_in_8bit",
    "log_completions_hub_repo", "loss_weights", "lr_scheduler_kwargs", "lr_scheduler_type", "num_generations",
    "num_generations_eval", "optim", "optim_target_modules", "parallelism_config", "push_to_hub",
    "steps_per_generation", "teacher_prompt_template", "tf32", "torch_compile", "torch_compile_backend",
    "torch_compile_mode", "trl/sft loss_type", "use_liger_kernel", "vllm_importance_sampling_clip_min",
}  # fmt: skip
PARSE = """
import dataclasses, json, os, sys
from pathlib import Path
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
sys.path.insert(0, sys.argv[1])
from record_trl import CLASSES, MODEL_CLASS, config_class
from accelerate.commands.launch import launch_command_parser
from trl import TrlParser
def plain(value):
    if isinstance(value, dict): return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)): return [plain(item) for item in value]
    return getattr(value, "value", value)
for line in sys.stdin:
    method, launcher, script, config = json.loads(line)
    path = Path(sys.argv[2], "config.json")
    path.write_text(config, encoding="utf-8")
    seen = vars(launch_command_parser().parse_args(launcher)) if launcher else {}
    seen.pop("func", None)
    classes = config_class(CLASSES[method]), config_class(MODEL_CLASS)
    found = TrlParser(classes).parse_args_and_config(["--config", str(path), "--use_cpu", "true", "--bf16", "false"])
    values = {item.name: plain(getattr(it, item.name)) for it in reversed(found) for item in dataclasses.fields(it)}
    print(json.dumps([seen, values], default=str), flush=True)
"""


def command_of(method: str, config: dict[str, Any], shape: str, rank: int = 0) -> adapters.Command:
    _, count, gpus, _ = POOLS[shape][0]
    machine = adapters.Machine(rank, count, gpus, "10.0.0.5", 29511, work_dir="/tmp/work dir")
    return adapters.compile(capsule(method, config, shape), machine)


def shapes() -> Iterator[tuple[str, dict[str, Any], str, int]]:
    for method in METHODS:
        for shape in shapes_of(method):
            for rank in range(machines(shape)):
                yield method, template_config(method), shape, rank


def other_value(spec: dict[str, Any]) -> Any:
    """A value that is not the default and that the schema takes."""
    kinds, default = spec["type"], spec.get("default")
    if "choices" in spec:
        choice = next(choice for choice in reversed(spec["choices"]) if choice != default)
        return choice if "str" in kinds else [choice]
    kind = next((kind for kind in ("bool", "float", "int", "dict", "str") if kind in kinds), kinds[0])
    if kind == "bool":
        return default is not True
    if kind == "str":
        return ODD
    if kind == "dict":
        return {"odd": ODD, "n": 1e-05}
    if kind.startswith("list"):
        return ["a b", "=c"] if kind == "list[str]" else [2, 3]
    low, high = spec.get("min", spec.get("exclusive_min", 1)), spec.get("max", spec.get("exclusive_max"))
    value = low + 1.25e-07 if kind == "float" else low + 1
    if value == default:
        value += 1
    assert high is None or value <= high
    return value


def keys() -> Iterator[tuple[str, dict[str, Any], str, int]]:
    """Every key of every method that a user may set, with another value than its default."""
    for method in METHODS:
        entry = index.entry(method)
        owned = entry["manifest"]["adapter_options"]["owned"]
        specs = index.config_keys(entry) or {}
        config = {
            key: other_value(spec)
            for key, spec in specs.items()
            if not {key, f"{method} {key}"} & NEEDS_MORE and not owning(key, owned)
        }
        if "num_generations" in specs:
            config["num_generations"] = 4  # rows x accumulated passes must be a multiple of it
        assert check_config(entry, config, {}) == []
        yield method, config, "1 GPU", 0


def test_every_method_shape_and_key_arrives(training_runtime: Path, tmp_path: Path) -> None:
    cases = [*shapes(), *keys()]
    lines = []
    for method, config, shape, rank in cases:
        command = command_of(method, config, shape, rank)
        launched = "accelerate.commands.launch" in command.argv
        launcher = list(command.argv[3:]) if launched else []
        lines.append(
            json.dumps([method.split("/")[1], launcher, list(command.argv[-3:]), command.files["config.json"]])
        )
        assert command.argv[-3:] == ("train.py", "--config", "/tmp/work dir/config.json")
        assert launched == (POOLS[shape][0][1] * POOLS[shape][0][2] > 1)
    done = subprocess.run(
        [training_runtime / "bin/python", "-c", PARSE, ROOT / "scripts/schemas", tmp_path],
        input="\n".join(lines), capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    for (method, config, shape, rank), (launcher, values) in zip(cases, answers, strict=True):
        _, count, gpus, _ = POOLS[shape][0]
        if launcher:
            wanted = {
                "num_processes": count * gpus, "num_machines": count, "machine_rank": rank,
                "main_process_ip": "10.0.0.5", "main_process_port": 29511, "multi_gpu": True,
                "training_script": "train.py", "training_script_args": ["--config", "/tmp/work dir/config.json"],
            }  # fmt: skip
            assert {key: launcher[key] for key in wanted} == wanted, method
        wrong = {key: (value, values[key]) for key, value in config.items() if values[key] != value}
        assert wrong == {}, f"{method} {shape}"
        assert (values["output_dir"], values["report_to"]) == (f"{OUT}/checkpoints", [])
    print(f"trl: {len(cases)} configurations of {len(METHODS)} methods parsed by accelerate and TRL")
