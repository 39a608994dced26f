"""evalkit: the experiment's `eval.py` with `--config <file>`: one process, which uses all cards of its machine."""

from __future__ import annotations

from typing import Any, Mapping

from tuneplane.adapters import json_for_yaml
from tuneplane.adapters.command import AdapterError, Command, Machine
from tuneplane.adapters.experiment import effective_config, entry_file, experiment_dir, pool_cpus

CONFIG_FILE = "config.json"  # below the work dir; the script reads it as YAML


def compile_command(capsule: Mapping[str, Any], machine: Machine) -> Command:
    if machine.count > 1:
        raise AdapterError(
            f"evalkit runs on one machine, not on {machine.count}: give tp submit --profile <card>:<cards of one>"
        )
    env = {"PYTHONUNBUFFERED": "1"}
    if machine.gpus_per_node == 0:
        env["CUDA_VISIBLE_DEVICES"] = ""  # a job that asked for no card gets none, also beside real ones
        cpus = pool_cpus(capsule)
        if cpus:
            env["OMP_NUM_THREADS"] = str(cpus)
    return Command(
        argv=(machine.python, entry_file(capsule), "--config", machine.work_dir + "/" + CONFIG_FILE),
        cwd_relative=experiment_dir(capsule),
        env=env,
        files={CONFIG_FILE: json_for_yaml.dumps(effective_config(capsule))},
    )
