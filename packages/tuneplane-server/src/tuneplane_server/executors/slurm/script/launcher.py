"""What a container runtime profile contributes to the script. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tuneplane.contract import words

# What each machine is told beside the job's own environment; the values are found when the script runs.
MACHINE_NAMES = (words.ENV_MACHINE_RANK, words.ENV_MACHINE_COUNT, words.ENV_MAIN_IP, words.ENV_MAIN_PORT)
# Which devices there are is for Slurm's cgroups and the runtime's hook to say, so NVIDIA_VISIBLE_DEVICES is `all` or `void`, and
# CUDA_VISIBLE_DEVICES, which Slurm sets, picks: its numbers count differently where devices are constrained and where not.
GPU_NAMES = ("NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
STEP_NAMES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


@dataclass(frozen=True)
class Launcher:
    """How one machine is started.

    `options`: of `srun`, already quoted for `sh`. `before`: shell text in the batch script that refuses what cannot work.
    `machine`: shell text that runs on each machine as the step's only task, with the rank and the number of its GPUs as `$1` and `$2`.
    `files`: for the `slurm/` directory.
    """

    machine: str
    options: tuple[str, ...] = ()
    before: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


def exported_names(environment_names: tuple[str, ...]) -> tuple[str, ...]:
    """What a step takes over from the batch script, once each, in a fixed order."""
    return tuple(sorted({*environment_names, *MACHINE_NAMES, *GPU_NAMES}))


def passed_names(environment_names: tuple[str, ...]) -> tuple[str, ...]:
    """What reaches the runner: that, and what Slurm sets for the step."""
    return tuple(sorted({*exported_names(environment_names), *STEP_NAMES}))
