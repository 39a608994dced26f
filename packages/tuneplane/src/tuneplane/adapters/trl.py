"""TRL: the experiment's `train.py` with `--config <file>`, alone or under accelerate's launcher."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from tuneplane.adapters import json_for_yaml
from tuneplane.adapters.command import Command, Machine
from tuneplane.adapters.experiment import (
    effective_config,
    entry_file,
    experiment_dir,
    pool_cpus,
)
from tuneplane.adapters.torchrun import shutdown_env

CONFIG_FILE = "config.json"  # below the work dir; TRL's parser reads it as YAML


def compile_command(capsule: Mapping[str, Any], machine: Machine) -> Command:
    config = effective_config(capsule)
    # Only the out dir outlives the job, so the platform says where checkpoints go.
    config["output_dir"] = capsule["paths"]["out_dir"] + "/checkpoints"
    script = [entry_file(capsule), "--config", machine.work_dir + "/" + CONFIG_FILE]
    return Command(
        argv=tuple(_launcher(machine) + script),
        cwd_relative=experiment_dir(capsule),
        env=_environment(capsule, machine),
        files={CONFIG_FILE: json_for_yaml.dumps(config)},
    )


def _launcher(machine: Machine) -> List[str]:
    per_machine = max(1, machine.gpus_per_node)
    total = per_machine * machine.count
    if total == 1:
        # One process: accelerate would start this very command after importing torch a second time (seconds, 300 MB).
        return [machine.python]
    # `--multi_gpu` is accelerate's name for "one process per card through torchrun"; without a CUDA device the same
    # processes meet over gloo. Every value is given, so that no accelerate config lying on the machine is asked.
    return [
        machine.python,
        "-m",
        "accelerate.commands.launch",
        "--multi_gpu",
        f"--num_processes={total}",
        f"--num_machines={machine.count}",
        f"--machine_rank={machine.rank}",
        f"--main_process_ip={machine.main_ip}",
        f"--main_process_port={machine.main_port}",
        "--rdzv_backend=static",
        "--mixed_precision=no",  # the trainer's own bf16/fp16 keys decide
        "--dynamo_backend=no",
    ]


def _environment(capsule: Mapping[str, Any], machine: Machine) -> Dict[str, str]:
    env = {"PYTHONUNBUFFERED": "1"}  # a line is worth most when it is fresh
    if max(1, machine.gpus_per_node) * machine.count > 1:  # accelerate starts them through torchrun's agent
        env.update(shutdown_env(capsule))
    if machine.gpus_per_node == 0:
        env["CUDA_VISIBLE_DEVICES"] = ""  # a job that asked for no card gets none, also beside real ones
        cpus = pool_cpus(capsule)
        if cpus:
            # The number of threads decides the order of sums: the same job gives the same losses on any machine.
            env["OMP_NUM_THREADS"] = str(cpus)
    return env
