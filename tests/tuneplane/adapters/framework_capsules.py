"""Capsules of OpenRLHF, NeMo RL and verl as plain values. CPython 3.9 and the standard library."""

from __future__ import annotations

from typing import Any

OUT = "/srv/jobs/0/out"
ONE = [{"name": "main", "series": "h200", "nodes": 1, "gpus_per_node": 8}]
TWO = [
    {"name": "trainers", "series": "h200", "nodes": 2, "gpus_per_node": 8},
    {"name": "engines", "series": "h200", "nodes": 1, "gpus_per_node": 8},
]
ROLES = {"train": "trainers", "rollout": "engines"}


def openrlhf_capsule(method: str = "sft", config: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    rl = method not in ("sft", "dpo", "rm")
    recipe = {
        "entrypoint": {"kind": "module", "value": f"openrlhf.cli.train_{'ppo_ray' if rl else method}"},
        "adapter_options": {"fixed": {"algo.advantage.estimator": "group_norm"} if rl else {}},
        "param_paths": {"learning_rate": "actor.adam.lr" if rl else "adam.lr"},
    }
    return framework_capsule(
        "openrlhf", recipe, {"reward.remote_url": "reward.py", **(config or {})} if rl else config, more
    )


def nemo_rl_capsule(method: str = "grpo", config: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    recipe = {
        "entrypoint": {"kind": "file", "value": f"examples/run_{method}.py", "experiment_override": "run.py"},
        "adapter_options": {"fixed": {}},
        "param_paths": {"max_steps": f"{method}.max_num_steps", "learning_rate": "policy.optimizer.kwargs.lr"},
    }
    return framework_capsule("nemo-rl", recipe, config, more)


def framework_capsule(kind: str, recipe: dict[str, Any], config: Any, more: dict[str, Any]) -> dict[str, Any]:
    pools, roles = more.pop("pools", ONE), more.pop("roles", {})
    hyperparams, data = more.pop("hyperparams", {}), more.pop("data", {})
    return {
        "jobspec": {
            "metadata": {"name": "first", "project": "lab"},
            "spec": {
                "framework": {"kind": kind, "version": "x"},
                "config": config or {},
                "hyperparams": hyperparams,
                "data": data,
                "resources": {"pools": pools, "roles": roles},
            },
        },
        "recipe": recipe,
        "paths": {"out_dir": OUT, "base_model": "/models/base", **more},
    }
