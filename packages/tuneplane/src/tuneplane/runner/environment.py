"""The environment of the trainer (docs/en/reference/environment)."""

from __future__ import annotations

import json
import os
from typing import Dict, Mapping, Optional

from tuneplane.adapters import Machine
from tuneplane.contract import words
from tuneplane.contract.names import is_env_name
from tuneplane.runner.capsule import Capsule
from tuneplane.runner.failures import RUNNER_FAILED, StartError
from tuneplane.runner.machine import pool_of

LIB_DIR = "tuneplane_lib"
REPORT_DIR = "report"
VOLUMES_DIR = "volumes"


def build_environment(
    capsule: Capsule, machine: Machine, inherited: Mapping[str, str], adapter_env: Mapping[str, str]
) -> Dict[str, str]:
    """Later wins: the image's and executor's environment, the adapter's, the user's, and what identifies the run.

    The user's values come under names of their own (`words.ENV_USER_PREFIX`), which the trainer does not see.
    """
    prefix = words.ENV_USER_PREFIX
    environment = {name: value for name, value in inherited.items() if not name.startswith(prefix)}
    environment.update(adapter_env)
    user = {name[len(prefix) :]: value for name, value in inherited.items() if name.startswith(prefix)}
    environment.update({k: v for k, v in user.items() if is_env_name(k) and not words.is_identity_env(k)})
    for name, identity in identity_environment(capsule, machine).items():
        if identity is None:
            environment.pop(name, None)  # an image must not pretend to a resume point or a data set
        else:
            environment[name] = identity
    if capsule.observability == "platform":
        library = os.path.join(machine.work_dir, LIB_DIR)
        rest = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = library + os.pathsep + rest if rest else library
    _check(environment)
    return environment


def identity_environment(capsule: Capsule, machine: Machine) -> Dict[str, Optional[str]]:
    """Every variable that belongs to the platform; None means that the job has no such thing and the variable is absent."""
    spec, paths, work_dir = capsule.spec, capsule.paths, machine.work_dir
    recipe, framework = spec["recipe"], spec["framework"]
    hub_cache = str(paths["hub_cache"])
    return {
        words.ENV_RUN_ID: capsule.job_id,
        words.ENV_ATTEMPT: str(capsule.attempt),
        words.ENV_OUT_DIR: capsule.out_dir,
        words.ENV_WORK_DIR: work_dir,
        words.ENV_EXP_DIR: os.path.join(work_dir, "lab", words.EXPERIMENTS_DIR, capsule.experiment),
        words.ENV_REPORT_DIR: os.path.join(work_dir, REPORT_DIR),
        words.ENV_STORAGE_ROOT: paths["storage_root"],
        words.ENV_DATA_CACHE: paths["data_cache"],
        words.ENV_HUB_CACHE: hub_cache,
        "HF_HOME": os.path.join(hub_cache, "huggingface"),
        "MODELSCOPE_CACHE": os.path.join(hub_cache, "modelscope"),
        words.ENV_VOLUMES_DIR: os.path.join(work_dir, VOLUMES_DIR),
        "TRAIN_DATA_DIR": paths.get("train_data"),
        "VALIDATION_DATA_DIR": paths.get("validation_data"),
        "BASE_MODEL_DIR": paths.get("base_model"),
        "INIT_MODEL_DIR": paths.get("init_model"),
        words.ENV_RESUME_FROM: paths.get("resume_from"),
        words.ENV_RECIPE: recipe["name"],
        words.ENV_RECIPE_VERSION: recipe["version"],
        words.ENV_RECIPE_DIGEST: recipe["digest"],
        words.ENV_FRAMEWORK: framework["kind"],
        words.ENV_FRAMEWORK_VERSION: framework["version"],
        words.ENV_RUNTIME_ID: framework.get("runtime_id"),
        words.ENV_NUM_NODES: str(sum(int(pool.get("nodes", 1)) for pool in capsule.pools)),
        words.ENV_GPUS_PER_NODE: str(pool_of(capsule.pools, machine.rank).get("gpus_per_node", 0)),
        words.ENV_POOL_TOPOLOGY: json.dumps(capsule.pools, separators=(",", ":"), sort_keys=True),
        words.ENV_MACHINE_RANK: str(machine.rank),
        words.ENV_MACHINE_COUNT: str(machine.count),
        words.ENV_MAIN_IP: machine.main_ip,
        words.ENV_MAIN_PORT: str(machine.main_port),
    }


def _check(environment: Mapping[str, str]) -> None:
    for name, value in environment.items():
        try:
            bad = b"\0" in os.fsencode(name) or b"\0" in os.fsencode(value)
        except (TypeError, UnicodeEncodeError):
            bad = True
        if bad:
            raise StartError(RUNNER_FAILED, f"the value of {name[:80]!r} cannot be an environment variable")
