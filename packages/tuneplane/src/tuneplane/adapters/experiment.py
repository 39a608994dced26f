"""What every adapter needs from the capsule: where the experiment lies, its configuration, the user's environment."""

from __future__ import annotations

import copy
from typing import Any, Dict, Mapping, MutableMapping

from tuneplane.adapters.command import AdapterError
from tuneplane.contract import words

LAB_DIR = "lab"  # the runner unpacks the package here, below the work dir


def experiment_dir(capsule: Mapping[str, Any]) -> str:
    """The experiment's directory, relative to the work dir."""
    return "/".join((LAB_DIR, words.EXPERIMENTS_DIR, capsule["jobspec"]["metadata"]["name"]))


def entry_file(capsule: Mapping[str, Any]) -> str:
    """The script of the experiment that the recipe names, relative to the experiment's directory."""
    entrypoint = capsule["recipe"]["entrypoint"]
    if entrypoint["kind"] != "experiment":
        raise AdapterError("entry point of kind {!r} is not for this adapter".format(entrypoint["kind"]))
    return str(entrypoint["value"])


def effective_config(capsule: Mapping[str, Any]) -> Dict[str, Any]:
    """`config.yaml` as resolved, then `--set` values at their paths, then the keys the recipe fixes. Later wins."""
    spec, recipe = capsule["jobspec"]["spec"], capsule["recipe"]
    config: Dict[str, Any] = copy.deepcopy(dict(spec.get("config") or {}))
    paths = recipe.get("param_paths") or {}
    for name, value in (spec.get("hyperparams") or {}).items():
        if name not in paths:
            raise AdapterError(f"the recipe has no parameter {name!r}")
        set_at(config, paths[name], value)
    for path, value in (recipe["adapter_options"].get("fixed") or {}).items():
        set_at(config, path, value)
    return config


def named_model(capsule: Mapping[str, Any], framework: str) -> str:
    """The model that the job trains: a path, or the name of one on a hub, of which `framework` loads no revision."""
    paths = capsule["paths"]
    model = paths.get("init_model") or paths.get("base_model")
    if not model:
        raise AdapterError("there is no model to train: give tp submit --model")
    if "@" in model and not model.startswith("/"):
        raise AdapterError(
            f"{framework} loads no revision of a hub model: give tp submit --model with a name alone, or a path"
        )
    return str(model)


def set_at(config: MutableMapping[str, Any], path: str, value: Any) -> None:
    """Set the value at a dotted path; a mapping on the way is made where there is none."""
    *parents, last = path.split(".")
    for part in parents:
        child = config.get(part)
        if not isinstance(child, MutableMapping):
            child = config[part] = {}
        config = child
    config[last] = value


def pool_cpus(capsule: Mapping[str, Any]) -> int:
    """CPUs of one machine of the pool that trains, 0 when the job does not say."""
    pools = capsule["jobspec"]["spec"]["resources"]["pools"]
    roles = capsule["jobspec"]["spec"]["resources"].get("roles") or {}
    wanted = roles.get("train", pools[0].get("name", "main"))
    for pool in pools:
        if pool.get("name", "main") == wanted:
            return int(pool.get("cpus") or 0)
    return 0
