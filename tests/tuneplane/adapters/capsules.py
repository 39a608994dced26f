"""Capsules as plain values, for the adapters' tests. CPython 3.9 and the standard library."""

from __future__ import annotations

from typing import Any


def trl_capsule(
    config: dict[str, Any] | None = None,
    hyperparams: dict[str, Any] | None = None,
    cpus: int | None = None,
    gpus: int = 0,
) -> dict[str, Any]:
    pool: dict[str, Any] = {"name": "main", "series": "cpu", "nodes": 1, "gpus_per_node": gpus, "memory_gb": 4}
    if cpus is not None:
        pool["cpus"] = cpus
    return {
        "jobspec": {
            "metadata": {"name": "first", "project": "lab"},
            "spec": {
                "framework": {"kind": "trl", "version": "1.16"},
                "config": config or {},
                "hyperparams": hyperparams or {},
                "resources": {"pools": [pool]},
            },
        },
        "recipe": {
            "entrypoint": {"kind": "experiment", "value": "train.py"},
            "adapter_options": {"launcher": "accelerate", "config_mode": "flat", "fixed": {"report_to": "none"}},
            "param_paths": {"learning_rate": "learning_rate", "size": "model.size"},
        },
        "paths": {"out_dir": "/srv/jobs/0/out"},
    }


def custom_capsule() -> dict[str, Any]:
    capsule = trl_capsule()
    capsule["jobspec"]["spec"]["framework"] = {"kind": "custom", "version": "1.0"}
    capsule["recipe"] = {"entrypoint": {"kind": "experiment", "value": "train.sh"}, "adapter_options": {}}
    return capsule
