"""What the settings say about jobs in Slurm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tuneplane_node.engine import Mount
from tuneplane_server.slurm_settings import SlurmSettings


@dataclass(frozen=True)
class SlurmRules:
    """`gpu_profile`: what cards are called here whose type Slurm does not name. `simulated`: its cards are invented.
    `extra_mounts`: what every container sees beside what is its own.
    """

    slurm: SlurmSettings
    storage_root: Path
    gpu_profile: str | None = None
    simulated: bool = False
    extra_mounts: tuple[Mount, ...] = ()
