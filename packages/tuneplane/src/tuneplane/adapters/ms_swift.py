"""ms-swift: `swift.cli.sft`, `swift.cli.rlhf` and `swift.cli._megatron.*` under torchrun, configured by command-line flags.

Its parser is transformers' HfArgumentParser over dataclasses (ms-swift 4.6, `swift/utils/utils.py`, parse_args): a key is `--key`, a list takes
several words, an object is JSON text, and a flag that is not given keeps its default. There is no word for "nothing".
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Dict, List, Mapping

from tuneplane.adapters.command import AdapterError, Command, LogHint, Machine
from tuneplane.adapters.experiment import effective_config, experiment_dir
from tuneplane.adapters.torchrun import torchrun_argv, torchrun_env, torchrun_hints

OUTPUT_DIR = "checkpoints"  # below the out dir: checkpoint-<step>, logging.jsonl
TRAIN_SAMPLE, VALIDATION_SAMPLE = (
    "data/train.jsonl",
    "data/validation.jsonl",
)  # of the experiment, as the templates have them
MEGATRON = "swift.cli._megatron."
# Lists whose default is not empty: leaving the flag away would bring that back.
NEVER_EMPTY = ("recompute_modules", "report_to", "target_modules", "vllm_server_port")
_HUBS = {"hf": True, "ms": False}
_NEGATIVE = re.compile(r"-(?:\d+|\d*\.\d+)\Z", re.ASCII)  # what argparse takes for a number and not for a flag


def compile_command(capsule: Mapping[str, Any], machine: Machine) -> Command:
    module = _module(capsule)
    flags = effective_config(capsule)
    if machine.gpus_per_node == 0 and not {"fp16", "bf16"} & set(flags):
        flags.update(fp16=False, bf16=False)  # ms-swift takes fp16 for a model in 32 bits, which no CPU computes in
    flags.update(_model_flags(capsule, flags))
    flags.update(_data_flags(capsule))
    flags.update(_resume_flags(capsule, module, flags))
    # Only the out dir outlives the job, so the platform says where checkpoints go.
    flags["output_dir"] = capsule["paths"]["out_dir"] + "/" + OUTPUT_DIR
    program = [module, *flag_arguments(flags)]
    return Command(
        argv=tuple(torchrun_argv(machine, program, out_dir=capsule["paths"]["out_dir"], module=True)),
        cwd_relative=experiment_dir(capsule),
        env=torchrun_env(capsule, machine),
        log_hints=(LogHint("jsonl", OUTPUT_DIR + "/logging.jsonl"), *torchrun_hints(machine)),
    )


def flag_arguments(flags: Mapping[str, Any]) -> List[str]:
    """The flags as words of a command line. Null and an empty list mean that the flag is not given.

    Raises `AdapterError` for what argparse cannot be told: a list of several texts with a leading dash among them, a list that may not
    be empty, a null byte.
    """
    arguments: List[str] = []
    for key, value in flags.items():
        if value is None:
            continue
        if not isinstance(value, (list, tuple)):
            # One word, so that text with a leading dash, or none at all, is not taken for another flag.
            arguments.append(f"--{key}={_word(key, value)}")
        elif len(value) == 1:
            arguments.append(f"--{key}={_word(key, value[0])}")
        elif value:
            arguments += [f"--{key}", *(_list_word(key, item) for item in value)]
        elif key in NEVER_EMPTY:
            raise AdapterError(f"{key} is an empty list, which ms-swift's command line has no word for")
    return arguments


def _word(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = json.dumps(value) if isinstance(value, (dict, list)) else str(value)
    if "\0" in text:
        raise AdapterError(f"{key} holds a null byte, which no command line can carry")
    return text


def _list_word(key: str, value: Any) -> str:
    # -1e-05 is a flag to argparse, -0.00001 is a number.
    word = format(Decimal(repr(value)), "f") if isinstance(value, float) else _word(key, value)
    if word.startswith("-") and not _NEGATIVE.match(word):
        raise AdapterError(f"{key} is a list with {word[:60]!r} in it, which ms-swift's command line takes for a flag")
    return word


def _module(capsule: Mapping[str, Any]) -> str:
    entrypoint = capsule["recipe"]["entrypoint"]
    if entrypoint["kind"] != "module":
        raise AdapterError("entry point of kind {!r} is not for this adapter".format(entrypoint["kind"]))
    return str(entrypoint["value"])


def _model_flags(capsule: Mapping[str, Any], flags: Mapping[str, Any]) -> Dict[str, Any]:
    """The model of `--model`, and of `--init-from`: the adapter to go on with when LoRA is trained over a base, else the model."""
    paths, asked = capsule["paths"], capsule["jobspec"]["spec"].get("model") or {}
    base, init = paths.get("base_model"), paths.get("init_model")
    if not base and not init:
        raise AdapterError("ms-swift needs a model: give tp submit --model")
    if base and init and flags.get("tuner_type", _tuner_default(capsule)) != "full":
        return {**one_model(base, asked.get("base")), "adapters": [init]}
    return one_model(init, asked.get("init_from")) if init else one_model(base, asked.get("base"))


def one_model(source: str, asked: Any) -> Dict[str, Any]:
    """A path as it is; a name on a hub with the hub and the revision that were asked for."""
    hub, colon, _ = str(asked or "").partition(":")
    if source.startswith("/") or not colon or hub not in _HUBS:
        return {"model": source}
    name, at, revision = (
        source[len(hub) + 1 :].partition("@") if source.startswith(hub + ":") else source.partition("@")
    )
    found: Dict[str, Any] = {"model": name, "use_hf": _HUBS[hub]}
    if at:
        found["model_revision"] = revision
    return found


def _data_flags(capsule: Mapping[str, Any]) -> Dict[str, Any]:
    """The job's data, else the sample of the experiment. Without validation data ms-swift does not evaluate."""
    asked = capsule["jobspec"]["spec"].get("data") or {}
    for name in ("train", "validation"):
        if (asked.get(name) or {}).get("split"):
            raise AdapterError(f"data.{name}.split: ms-swift reads the split train of a folder and no other")
    train, validation = capsule["paths"].get("train_data"), capsule["paths"].get("validation_data")
    if not train:
        train, validation = TRAIN_SAMPLE, validation or VALIDATION_SAMPLE
    return {"dataset": [train], "val_dataset": [validation] if validation else []}


def _resume_flags(capsule: Mapping[str, Any], module: str, flags: Mapping[str, Any]) -> Dict[str, Any]:
    """Go on from a checkpoint with optimizer, schedule and step; Megatron's flags for it say which kind of weights it holds."""
    checkpoint = capsule["paths"].get("resume_from")
    if not checkpoint:
        return {}
    if not module.startswith(MEGATRON):
        return {"resume_from_checkpoint": checkpoint}
    tuned = flags.get("tuner_type", _tuner_default(capsule)) != "full"
    return {"mcore_adapter" if tuned else "mcore_model": checkpoint, "finetune": False}


def _tuner_default(capsule: Mapping[str, Any]) -> str:
    """LoRA, but all weights under Megatron (`swift/megatron/arguments/megatron_args.py`, MegatronTunerMixin)."""
    return "full" if _module(capsule).startswith(MEGATRON) else "lora"
