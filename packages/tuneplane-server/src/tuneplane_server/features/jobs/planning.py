"""Gathers what admission and the plan of a dry run need, from the features and the executor; no session is held meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneplane.contract.jobspec import JobSpec
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.lab.preview import planned_machine
from tuneplane_server.domain.placement import PoolRequest
from tuneplane_server.executors.port import Executor
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.catalog.service import CatalogService
from tuneplane_server.features.governance.usage import UsageService
from tuneplane_server.features.hardware.service import CPU_PROFILE, HardwareService, Profile
from tuneplane_server.features.jobs.admission.context import AdmissionContext
from tuneplane_server.features.jobs.capsule import CapsuleInput, build_capsule
from tuneplane_server.features.jobs.references import ResolvedReferences, RunSource, resolve_references
from tuneplane_server.features.packages.service import PackageService
from tuneplane_server.features.runtimes.registry import RuntimeRegistry
from tuneplane_server.features.runtimes.resolving import Known, ResolvedRuntime, resolve_runtime
from tuneplane_server.settings import Settings
from tuneplane_server.slurm_settings import SlurmSettings
from tuneplane_server.storage.layout import StorageRoot

PREVIEW_RUN_ID = "0" * 16  # what a dry run shows where the run's id will be


@dataclass(frozen=True)
class Planner:
    settings: Settings
    storage: StorageRoot
    executor: Executor
    catalog: CatalogService
    hardware: HardwareService
    packages: PackageService
    runs: RunSource
    usage: UsageService
    registry: RuntimeRegistry
    slurm: SlurmSettings | None

    async def context(
        self, spec: JobSpec, principal: Principal, ingest_address: str, *, dry_run: bool
    ) -> AdmissionContext:
        """Everything the rules look at."""
        method = spec.spec.recipe.name
        entry = self.catalog.entry(method)
        profiles = await self.hardware.profiles()
        pools = pool_requests(spec)
        nodes = await self.hardware.nodes()
        return AdmissionContext(
            spec=spec,
            entry=entry,
            nearest_method=None if entry else self.catalog.nearest(method),
            recipe_changes=await asyncio.to_thread(self.catalog.changes, method) if entry else (),
            capabilities=self.executor.capabilities(),
            nodes=nodes,
            slurm=self.slurm,
            registry_file=self.settings.runtime_registry_file,
            profiles=profiles,
            pools=pools,
            no_room_ever=self.hardware.ever_fits(pools, nodes) if _known(pools, profiles) else None,
            runtime=await self._runtime(spec, entry),
            references=await self.references(spec, principal),
            standings=await self.usage.standings(principal, spec.metadata.project),
            ingest_address=ingest_address,
            package_here=dry_run or await self.packages.has(principal, spec.provenance.package_digest),
            dry_run=dry_run,
        )

    async def references(self, spec: JobSpec, principal: Principal) -> ResolvedReferences:
        isolated = self.executor.capabilities().isolates
        open_roots = _mounted(self.settings.container_mounts) if isolated else None
        return await resolve_references(spec, self.storage, principal, self.runs, open_roots)

    async def _runtime(self, spec: JobSpec, entry: dict[str, Any] | None) -> ResolvedRuntime | Refusal | None:
        if entry is None:
            return None
        version = entry["manifest"]["runtime"]["versions"].get(spec.spec.framework.version)
        if version is None:
            return None  # its own refusal says enough
        asked, form = spec.spec.framework, self.executor.capabilities().image_form
        try:
            known = Known(self.settings, await self.registry.current(), form)
            return await asyncio.to_thread(resolve_runtime, asked.kind, version, known, asked.image, asked.runtime_id)
        except RefusedError as error:
            return error.refusals[0]

    def preview(self, context: AdmissionContext, owner: str) -> dict[str, Any]:
        """What the job will get: image, pools, environment, command and files, with `$TUNEPLANE_WORK_DIR` where that will be."""
        from tuneplane import adapters

        spec = context.spec
        runtime = context.runtime if isinstance(context.runtime, ResolvedRuntime) else None
        plan: dict[str, Any] = {
            "image": runtime.image if runtime else None,
            "runtime_id": runtime.runtime_id if runtime else spec.spec.framework.runtime_id,
            "pools": [pool.model_dump(exclude_none=True) for pool in spec.spec.resources.pools],
            "env": dict(spec.spec.env),
            "argv_preview": None,
            "files": {},
        }
        if context.entry is None or (spec.spec.action is not None and context.references.export is None):
            return plan  # the refusals say why
        given = CapsuleInput(
            job_id=PREVIEW_RUN_ID,
            owner=owner,
            attempt=1,
            spec=spec,
            manifest=context.manifest,
            references=context.references,
            ingest_address=context.ingest_address,
            resume_from=None,
        )
        capsule = build_capsule(given, self.storage).to_json()
        machine = planned_machine(capsule["topology"]["pools"], 0)
        try:
            command = adapters.compile(capsule, machine)
        except adapters.AdapterError:
            return plan  # the refusals say why
        return plan | {
            "argv_preview": list(command.argv),
            "env": command.env | plan["env"],  # an adapter sets defaults
            "files": dict(command.files),
        }


def pool_requests(spec: JobSpec) -> list[PoolRequest]:
    """The pools of a JobSpec as placement wants them."""
    return [
        PoolRequest(
            pool.name, pool.series, pool.nodes, pool.gpus_per_node, float(pool.cpus or 0), float(pool.memory_gb or 0)
        )
        for pool in spec.spec.resources.pools
    ]


def _known(pools: Sequence[PoolRequest], profiles: Sequence[Profile]) -> bool:
    """Whether every pool by itself names a profile that could have it; else its own refusal says enough."""
    largest = {profile.name: profile.gpus_per_node for profile in profiles}
    return all(
        pool.profile in largest
        and (pool.profile == CPU_PROFILE) == (pool.gpus_per_node == 0)
        and pool.gpus_per_node <= largest[pool.profile]
        for pool in pools
    )


def _mounted(setting: str | None) -> list[Path]:
    """Host directories of TUNEPLANE_CONTAINER_MOUNTS that the containers see under the same path."""
    from tuneplane_node.engine import parse_mounts

    return [Path(mount.target).resolve() for mount in parse_mounts(setting or "") if mount.source == mount.target]
