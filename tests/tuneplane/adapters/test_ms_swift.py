"""ms-swift's command line: which flags, in which words. What its own parser makes of them: tests/catalog/ms_swift."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tuneplane.adapters.capsules import trl_capsule
from tuneplane import adapters
from tuneplane.adapters import AdapterError, LogHint, Machine
from tuneplane.adapters.ms_swift import flag_arguments


def capsule(
    config: dict[str, Any] | None = None, module: str = "swift.cli.sft", base: str | None = "/models/m", **paths: str
) -> dict[str, Any]:
    made = trl_capsule(config)
    made["jobspec"]["spec"]["framework"] = {"kind": "ms-swift", "version": "4.6"}
    made["jobspec"]["spec"]["model"] = {"base": base}
    made["recipe"] = {
        "entrypoint": {"kind": "module", "value": module},
        "adapter_options": {"fixed": {"add_version": False}},
        "param_paths": {},
    }
    made["paths"].update(base_model=base, **paths)
    return made


def flags_of(made: dict[str, Any], machine: Machine | None = None) -> dict[str, Any]:
    argv = list(adapters.compile(made, machine or Machine(gpus_per_node=1)).argv)
    words = argv[argv.index("--module") + 2 :]
    return dict(word[2:].split("=", 1) for word in words if word.startswith("--") and "=" in word)


def test_the_module_runs_under_torchrun_and_logs_where_the_runner_looks() -> None:
    command = adapters.compile(capsule(), Machine(gpus_per_node=2))
    assert command.argv[command.argv.index("--module") + 1] == "swift.cli.sft"
    assert command.cwd_relative == "lab/experiments/first"
    assert command.log_hints == (LogHint("jsonl", "checkpoints/logging.jsonl"), LogHint("ranks", "ranks"))
    assert flags_of(capsule())["output_dir"] == "/srv/jobs/0/out/checkpoints"


def test_the_platforms_flags_win_over_the_configuration() -> None:
    found = flags_of(capsule({"model": "mine", "output_dir": "/x", "add_version": True, "dataset": ["a"]}))
    assert (found["model"], found["output_dir"]) == ("/models/m", "/srv/jobs/0/out/checkpoints")
    assert (found["add_version"], found["dataset"]) == ("false", "data/train.jsonl")


def test_data_of_the_job_stands_in_for_the_sample_and_without_validation_data_there_is_none() -> None:
    assert flags_of(capsule())["val_dataset"] == "data/validation.jsonl"
    found = flags_of(capsule(train_data="/data/a:b#c"))
    assert found["dataset"] == "/data/a:b#c"
    assert "val_dataset" not in found
    assert flags_of(capsule(train_data="/t", validation_data="/v"))["val_dataset"] == "/v"


def test_a_split_that_ms_swift_cannot_be_asked_for_is_refused() -> None:
    made = capsule(train_data="/t")
    made["jobspec"]["spec"]["data"] = {"train": {"path": "/t", "split": "held out"}}
    with pytest.raises(AdapterError, match=r"data\.train\.split"):
        adapters.compile(made, Machine())


@pytest.mark.parametrize(
    ("asked", "resolved", "flags"),
    [
        ("hf:Qwen/Q", "Qwen/Q", {"model": "Qwen/Q", "use_hf": "true"}),
        ("ms:Qwen/Q@v1", "Qwen/Q@v1", {"model": "Qwen/Q", "use_hf": "false", "model_revision": "v1"}),
        ("hf:Qwen/Q@v1", "hf:Qwen/Q@v1", {"model": "Qwen/Q", "use_hf": "true", "model_revision": "v1"}),
        ("run/0/checkpoint", "/out/checkpoint-8", {"model": "/out/checkpoint-8"}),
        ("/models/a@b", "/models/a@b", {"model": "/models/a@b"}),
    ],
)
def test_the_model_is_a_path_or_a_name_on_the_hub_that_was_asked_for(
    asked: str, resolved: str, flags: dict[str, str]
) -> None:
    made = capsule(base=asked)
    made["paths"]["base_model"] = resolved
    found = flags_of(made)
    assert {name: found.get(name) for name in ("model", "use_hf", "model_revision") if name in found} == flags


@pytest.mark.parametrize(
    ("module", "tuner", "flags"),
    [
        ("swift.cli.sft", None, {"model": "/models/m", "adapters": "/init"}),
        ("swift.cli.rlhf", "full", {"model": "/init"}),
        ("swift.cli._megatron.sft", None, {"model": "/init"}),
        ("swift.cli._megatron.sft", "lora", {"model": "/models/m", "adapters": "/init"}),
    ],
)
def test_init_from_is_an_adapter_when_lora_is_trained_over_a_base(
    module: str, tuner: str | None, flags: dict[str, str]
) -> None:
    found = flags_of(capsule({"tuner_type": tuner} if tuner else {}, module, init_model="/init"))
    assert {name: found[name] for name in ("model", "adapters") if name in found} == flags
    assert flags_of(capsule(module=module, base=None, init_model="/init"))["model"] == "/init"


def test_without_a_model_there_is_no_command() -> None:
    with pytest.raises(AdapterError, match="give tp submit --model"):
        adapters.compile(capsule(base=None), Machine())


@pytest.mark.parametrize(
    ("module", "tuner", "flags"),
    [
        ("swift.cli.rlhf", "lora", {"resume_from_checkpoint": "/c/checkpoint-8"}),
        ("swift.cli._megatron.rlhf", "full", {"mcore_model": "/c/checkpoint-8", "finetune": "false"}),
        ("swift.cli._megatron.rlhf", "lora", {"mcore_adapter": "/c/checkpoint-8", "finetune": "false"}),
    ],
)
def test_a_run_goes_on_from_its_checkpoint(module: str, tuner: str, flags: dict[str, str]) -> None:
    found = flags_of(capsule({"tuner_type": tuner}, module, resume_from="/c/checkpoint-8"))
    names = ("resume_from_checkpoint", "mcore_model", "mcore_adapter", "finetune")
    assert {name: found[name] for name in names if name in found} == flags


def test_on_a_cpu_it_computes_in_32_bits_unless_told_otherwise() -> None:
    found = flags_of(capsule(), Machine())
    assert (found["fp16"], found["bf16"]) == ("false", "false")
    told = flags_of(capsule({"bf16": True}), Machine())
    assert told["bf16"] == "true"
    assert "fp16" not in told
    assert "fp16" not in flags_of(capsule(), Machine(gpus_per_node=1))


def test_values_in_words() -> None:
    assert flag_arguments(
        {
            "a": True, "b": None, "c": 1e-05, "d": "-x=y z", "e": "", "f": {"k": [1, "ü"]}, "g": [], "h": ["-one"],
            "i": [-1e-05, 2, "x y"], "j": 3,
        }
    ) == [
        "--a=true", "--c=1e-05", "--d=-x=y z", "--e=", "--f=" + json.dumps({"k": [1, "ü"]}), "--h=-one",
        "--i", "-0.00001", "2", "x y", "--j=3",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"stop_words": ["a", "-b"]}, "takes for a flag"),
        ({"target_modules": []}, "empty list"),
        ({"system": "a\0b"}, "null byte"),
    ],
)
def test_what_no_command_line_can_say_is_refused(flags: dict[str, Any], why: str) -> None:
    with pytest.raises(AdapterError, match=why):
        flag_arguments(flags)


def test_an_entry_point_of_another_kind_is_refused() -> None:
    made = capsule()
    made["recipe"]["entrypoint"] = {"kind": "experiment", "value": "train.py"}
    with pytest.raises(AdapterError, match="entry point of kind 'experiment'"):
        adapters.compile(made, Machine())
