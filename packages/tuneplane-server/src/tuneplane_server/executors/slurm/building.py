"""Puts the executor `slurm` together."""

from __future__ import annotations

from tuneplane_node.engine import parse_mounts
from tuneplane_server.clock import Clock
from tuneplane_server.executors.slurm.executor import SlurmExecutor
from tuneplane_server.executors.slurm.rest.client import SlurmClient
from tuneplane_server.executors.slurm.rules import SlurmRules
from tuneplane_server.settings import Settings
from tuneplane_server.slurm_settings import SlurmSettings


def build_client(slurm: SlurmSettings) -> SlurmClient:
    token = slurm.token_file if slurm.token is None else slurm.token.get_secret_value()
    assert token is not None
    return SlurmClient(slurm.url, slurm.user, token, ca_file=slurm.ca_file)


def build_rules(settings: Settings, slurm: SlurmSettings) -> SlurmRules:
    return SlurmRules(
        slurm=slurm,
        storage_root=settings.storage_root,
        gpu_profile=settings.gpu_profile,
        simulated=bool(settings.simulated_gpus),
        extra_mounts=parse_mounts(settings.container_mounts or ""),
    )


def build_slurm(settings: Settings, slurm: SlurmSettings, clock: Clock, instance: str) -> SlurmExecutor:
    """`instance` is not used: a job is a run's whoever submitted it, and the ledger knows whose run it is."""
    return SlurmExecutor(build_client(slurm), build_rules(settings, slurm), clock)
