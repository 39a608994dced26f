"""Record the command-line flags of OpenRLHF's own parsers: names, types, defaults, choices, bounds.

    $(scripts/framework-env openrlhf)/bin/python scripts/schemas/record_openrlhf.py <schema-0.11.json>… [--check]

Runs in an environment that has OpenRLHF; needs nothing of ours, and neither deepspeed nor vLLM nor Ray (`openrlhf_cli.py` says how). A key is a
flag without its dashes. `--check` writes nothing and fails when a file is not what the installed OpenRLHF says.
"""

from __future__ import annotations

import argparse
import math
import sys
from importlib.metadata import version
from typing import Any

from openrlhf_cli import parse, parser_of
from recording import keep, paths_of, rendered

MODULES = {
    "ppo": "train_ppo_ray",
    "grpo": "train_ppo_ray",
    "reinforce-baseline": "train_ppo_ray",
    "sft": "train_sft",
    "dpo": "train_dpo",
    "rm": "train_rm",
}
# Methods that compare the completions of one prompt, with OpenRLHF's name for how.
GROUPED = {"grpo": "group_norm", "reinforce-baseline": "reinforce_baseline"}
TIMED = {"logger.wandb.run_name"}  # its default is the time of day

# Argument parsers carry types, not bounds. Each is here for the meaning of the quantity (a count of things is at least 1, a probability lies in
# 0 to 1) or, `said`, because OpenRLHF's help or its check after parsing says so. Names are matched by their ends.
COUNTS = (
    "train.batch_size", "train.micro_batch_size", "train.max_epochs", "train.num_episodes", "train.async_queue_size",
    "train.max_tokens_per_gpu", "rollout.batch_size", "rollout.micro_batch_size", "rollout.vllm_generate_batch_size",
    "rollout.n_samples_per_prompt", "rollout.max_new_tokens", "rollout.max_tokens_per_gpu", "data.max_len", "data.max_samples",
    "eval.n_samples_per_prompt", "vllm.tensor_parallel_size", "ds.tensor_parallel_size", "ds.ring_attn_size",
    "ds.ring_attn_head_stride", "logger.logging_steps", "ds.lora.alpha", "ds.zpg", "ckpt.max_num", "algo.kl.horizon",
)  # fmt: skip
FROM_ZERO = (
    "adam.lr", "muon.lr", "adam.eps", "adam.weight_decay", "max_norm", "ds.lora.rank", "data.dataloader_num_workers",
    "algo.kl.init_coef", "model.aux_loss_coef", "actor.aux_loss_coef", "actor.eps_clip", "critic.value_clip",
    "rollout.temperature", "eval.temperature", "beta", "nll_loss_coef",
)  # fmt: skip
SHARES = (
    "lr_warmup_ratio", "min_lr_ratio", "ds.lora.dropout", "muon.momentum", "train.ema_beta", "algo.advantage.lambd", "algo.advantage.gamma",
    "label_smoothing",
)  # fmt: skip
OTHER: dict[str, dict[str, Any]] = {
    "vllm.gpu_memory_utilization": {"exclusive_min": 0, "max": 1},
    "rollout.top_p": {"exclusive_min": 0, "max": 1},
    "ds.zero_stage": {"min": 0, "max": 3},
    "ckpt.save_steps": {"min": -1},
    "eval.steps": {"min": -1},
    "adam.betas": {"min": 0, "exclusive_max": 1},
    "train.seed": {"min": 0},
}


def main(arguments: list[str]) -> int:
    paths, check = paths_of(arguments)
    return keep(dict.fromkeys(paths, rendered(record())), "the installed OpenRLHF", check=check)


def record() -> dict[str, Any]:
    """The schema: `common` holds the keys that are the same in every method, `methods` those of each besides."""
    parsers = {module: flags_of(parser_of(module)) for module in sorted(set(MODULES.values()))}
    methods = {method: {**parsers[module], **grouped(method)} for method, module in MODULES.items()}
    first, *others = methods.values()
    common = {key: spec for key, spec in first.items() if all(other.get(key) == spec for other in others)}
    installed = version("openrlhf")
    return {
        "framework": "openrlhf",
        "version": ".".join(installed.split(".")[:2]),
        "recorded_from": {"openrlhf": installed},
        "common": common,
        "methods": {
            method: {key: spec for key, spec in keys.items() if key not in common} for method, keys in methods.items()
        },
    }


def grouped(method: str) -> dict[str, Any]:
    """OpenRLHF's default of one completion a prompt is refused by its own check where completions are compared."""
    if method not in GROUPED:
        return {}
    argv = [f"--algo.advantage.estimator={GROUPED[method]}", "--reward.remote_url=x", "--vllm.num_engines=1"]
    module, flag = MODULES[method], "rollout.n_samples_per_prompt"
    parse(module, [*argv, f"--{flag}=2"])
    try:
        parse(module, [*argv, f"--{flag}=1"])
    except AssertionError:
        return {flag: {"type": ["int"], "min": 2, "required": True, "source": "refused"}}
    raise SystemExit(f"{method} takes one completion a prompt now")


def flags_of(parser: argparse.ArgumentParser) -> dict[str, dict[str, Any]]:
    keys = {}
    for action in parser._actions:  # argparse offers no other way to ask
        if isinstance(action, argparse._HelpAction):
            continue
        (option,) = action.option_strings
        key = option.removeprefix("--")
        if isinstance(action, argparse._StoreFalseAction):
            # The adapter says it for a false `nesterov`, by this very rule.
            if key != action.dest.replace("nesterov", "no_nesterov"):
                raise SystemExit(f"{option} switches {action.dest} off; teach adapters/openrlhf.py")
            continue
        if key != action.dest:
            raise SystemExit(f"{option} sets {action.dest}; teach scripts/schemas/record_openrlhf.py")
        keys[key] = describe(key, action)
    return keys


def describe(key: str, action: argparse.Action) -> dict[str, Any]:
    if isinstance(action, argparse._StoreTrueAction):
        return {"type": ["bool"], "default": bool(action.default)}
    kind = str(getattr(action.type or str, "__name__", action.type))
    spec: dict[str, Any] = {"type": [kind if action.nargs is None else f"list[{kind}]"]}
    if isinstance(action.nargs, int):
        spec["length"] = action.nargs
    if action.choices is not None:
        spec["choices"] = list(action.choices)
    if action.default is None:
        spec["nullable"] = True
    if key not in TIMED and not (isinstance(action.default, float) and not math.isfinite(action.default)):
        spec["default"] = list(action.default) if isinstance(action.default, tuple) else action.default
    limits = bounds_of(key) if kind in ("int", "float") else {}
    return {**spec, **limits, **({"source": "meaning"} if limits else {})}


def bounds_of(key: str) -> dict[str, Any]:
    def named(names: Any) -> bool:
        return any(key == name or key.endswith(f".{name}") for name in names)

    for name, limits in OTHER.items():
        if named((name,)):
            return limits
    return (
        {"min": 1}
        if named(COUNTS)
        else {"min": 0}
        if named(FROM_ZERO)
        else {"min": 0, "max": 1}
        if named(SHARES)
        else {}
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
