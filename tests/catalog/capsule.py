"""Capsules of the catalog's own methods, as the server makes them: from the manifest, a configuration and pools."""

from __future__ import annotations

from typing import Any

import yaml

from tuneplane.recipes import index

OUT = "/srv/storage/projects/me/lab/jobs/0/attempts/2/out"
WORK = "/tmp/work-dir"
POOLS: dict[str, list[tuple[str, int, int, str]]] = {  # name -> (pool, machines, GPUs of each, role or "" for all)
    "1 GPU": [("main", 1, 1, "")],
    "1x8": [("main", 1, 8, "")],
    "2x8": [("main", 2, 8, "")],
    "two pools": [("trainers", 2, 8, "train"), ("engines", 1, 8, "rollout")],
}


def template_config(method: str) -> dict[str, Any]:
    """The template's own configuration."""
    return yaml.safe_load((index.CATALOG / method / "template/config.yaml").read_text(encoding="utf-8"))


def methods_of(framework: str) -> list[str]:
    return [method for method in index.methods() if method.startswith(f"{framework}/")]


def shapes_of(method: str) -> list[str]:
    """The shapes of `POOLS` that make sense: two pools where the method has the role to fill the second."""
    roles = index.entry(method)["manifest"]["roles"]
    return [name for name, pools in POOLS.items() if len(pools) == 1 or "rollout" in roles]


def capsule(
    method: str,
    config: dict[str, Any],
    shape: str = "1x8",
    hyperparams: dict[str, Any] | None = None,
    data: dict[str, Any] | None = None,
    **paths: str | None,
) -> dict[str, Any]:
    """`data`: as in the JobSpec; `paths`: over a model and nothing else."""
    manifest = index.entry(method)["manifest"]
    pools = [
        {"name": name, "series": "h200", "nodes": nodes, "gpus_per_node": gpus}
        for name, nodes, gpus, _role in POOLS[shape]
    ]
    return {
        "jobspec": {
            "metadata": {"name": "first", "project": "lab"},
            "spec": {
                "recipe": {"name": method, "version": manifest["version"]},
                "framework": {"kind": manifest["framework"], "version": manifest["runtime"]["default_version"]},
                "config": config,
                "hyperparams": hyperparams or {},
                "data": data or {},
                "resources": {"pools": pools, "roles": {role: name for name, _, _, role in POOLS[shape] if role}},
                "limits": {"grace": 60},
            },
        },
        "recipe": {
            "entrypoint": manifest["entrypoint"],
            "adapter_options": manifest["adapter_options"],
            "param_paths": {name: param["path"] for name, param in manifest["params"].items()},
        },
        "topology": {"pools": pools, "machine_count": machines(shape)},
        "paths": {"out_dir": OUT, "base_model": "/models/base", "resume_from": None, **paths},
    }


def machines(shape: str) -> int:
    return sum(nodes for _, nodes, _, _ in POOLS[shape])
