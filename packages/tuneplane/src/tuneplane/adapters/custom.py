"""custom/custom: runs `train.sh` of the experiment and nothing else. No probing, no configuration of ours."""

from __future__ import annotations

from typing import Any, Mapping

from tuneplane.adapters.command import Command, Machine
from tuneplane.adapters.experiment import entry_file, experiment_dir


def compile_command(capsule: Mapping[str, Any], machine: Machine) -> Command:
    return Command(
        argv=("sh", entry_file(capsule)),
        cwd_relative=experiment_dir(capsule),
        env={"PYTHONUNBUFFERED": "1"},
    )
