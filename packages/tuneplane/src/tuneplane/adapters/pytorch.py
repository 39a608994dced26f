"""PyTorch: the experiment's `train.py` with `--config <file>` under torchrun, one process per card."""

from __future__ import annotations

from typing import Any, Mapping

from tuneplane.adapters import json_for_yaml
from tuneplane.adapters.command import Command, Machine
from tuneplane.adapters.experiment import effective_config, entry_file, experiment_dir
from tuneplane.adapters.torchrun import torchrun_argv, torchrun_env, torchrun_hints

CONFIG_FILE = "config.json"  # below the work dir; the script reads it as YAML


def compile_command(capsule: Mapping[str, Any], machine: Machine) -> Command:
    program = [entry_file(capsule), "--config", machine.work_dir + "/" + CONFIG_FILE]
    return Command(
        argv=tuple(torchrun_argv(machine, program, out_dir=capsule["paths"]["out_dir"])),
        cwd_relative=experiment_dir(capsule),
        env=torchrun_env(capsule, machine),
        files={CONFIG_FILE: json_for_yaml.dumps(effective_config(capsule))},
        log_hints=torchrun_hints(machine),
    )
