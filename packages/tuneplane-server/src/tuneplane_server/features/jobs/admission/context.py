"""What the rules of admission look at: plain values, gathered before, so that a rule is a function without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneplane.contract.jobspec import JobSpec
from tuneplane.contract.refusals import Refusal
from tuneplane_server.domain.placement import NoRoom, PoolRequest
from tuneplane_server.executors.port import Capabilities, NodeInfo
from tuneplane_server.features.governance.usage import Standings
from tuneplane_server.features.hardware.service import Profile
from tuneplane_server.features.jobs.references import ResolvedReferences
from tuneplane_server.features.runtimes.resolving import ResolvedRuntime
from tuneplane_server.slurm_settings import SlurmSettings


@dataclass(frozen=True)
class AdmissionContext:
    """`entry`: the recipe of this server's catalog, None when it has none of that name. `dry_run`: nothing was uploaded yet."""

    spec: JobSpec
    entry: dict[str, Any] | None
    nearest_method: str | None
    recipe_changes: Sequence[Refusal]  # the recipe on this machine's disk is not the one of its digest
    capabilities: Capabilities
    nodes: Sequence[NodeInfo]  # the machines as they are; empty when nobody could ever be asked
    slurm: SlurmSettings | None  # where jobs go to Slurm: which partition, and how long
    registry_file: Path | None  # of the runtimes
    profiles: Sequence[Profile]
    pools: Sequence[PoolRequest]
    no_room_ever: NoRoom | None  # the pools would not fit even if nobody else ran
    runtime: ResolvedRuntime | Refusal | None  # None: the recipe is unknown, so nothing can be said
    references: ResolvedReferences
    standings: Standings  # quotas and policies as they are for who submits
    ingest_address: str
    package_here: bool
    dry_run: bool

    @property
    def gpus(self) -> int:
        """Of all pools together."""
        return sum(pool.nodes * pool.gpus_per_node for pool in self.pools)

    @property
    def manifest(self) -> dict[str, Any]:
        """The recipe's manifest; only for rules that run when the recipe is known."""
        assert self.entry is not None
        manifest: dict[str, Any] = self.entry["manifest"]
        return manifest

    @property
    def version(self) -> dict[str, Any] | None:
        """The recipe's runtime of the framework version asked for."""
        if self.entry is None:
            return None
        found: dict[str, Any] | None = self.manifest["runtime"]["versions"].get(self.spec.spec.framework.version)
        return found
