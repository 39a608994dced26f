"""What must be on disk before a launch: the package, the directories, the capsule; and the plan the executor gets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from tuneplane.contract import words
from tuneplane.contract.capsule import Capsule
from tuneplane.contract.jobspec import JobSpec
from tuneplane_server.domain.placement import PoolRequest
from tuneplane_server.executors.port import (
    Executor,
    Handle,
    LaunchPlan,
    LaunchRefusedError,
    MachinePlan,
    PoolPlan,
)
from tuneplane_server.features.accounts.principal import SCOPES, Principal
from tuneplane_server.features.jobs.capsule import CapsuleInput, build_capsule, ingest_url, write_capsule
from tuneplane_server.features.jobs.planning import Planner, pool_requests
from tuneplane_server.features.jobs.tables import AttemptRow, JobRow
from tuneplane_server.features.packages.service import key_of
from tuneplane_server.storage.layout import AttemptPaths
from tuneplane_server.storage.objects import ObjectMissingError, ObjectStore, StoreUnavailableError

GIB = 1024**3
# After the trainer's grace the runner kills it, indexes the artifacts and drains its spool; only then is it killed itself.
WIND_UP = timedelta(seconds=30)


class TokenIssuer(Protocol):
    async def issue(self, job_id: str, attempt: int) -> str: ...

    async def revoke(self, job_id: str, attempt: int | None = None) -> None: ...


class Addresses(Protocol):
    @property
    def ingest_address(self) -> str: ...


class LaunchPreparer:
    """Makes the same files for the same attempt however often it is asked."""

    def __init__(
        self,
        planner: Planner,
        executor: Executor,
        store: ObjectStore,
        tokens: TokenIssuer,
        addresses: Addresses,
        offered: Mapping[str, str],
    ) -> None:
        """`offered`: variables of services that this console has for every job."""
        self._planner, self._executor, self._store = planner, executor, store
        self._tokens, self._addresses, self._offered = tokens, addresses, offered

    async def prepare(self, row: JobRow, attempt: AttemptRow) -> LaunchPlan:
        """Raises `LaunchRefusedError` when the package or what the JobSpec names is gone since admission."""
        spec = JobSpec.model_validate(row.spec)
        storage = self._planner.storage
        paths = storage.attempt(row.owner, row.project, row.id, attempt.n)
        await self._fetch_package(row.package_digest)
        references = await self._planner.references(spec, _owner(row))
        if references.missing:
            reasons = "; ".join(refusal.message for refusal in references.missing)
            raise LaunchRefusedError("data-unreadable", {"detail": reasons})
        entry = self._planner.catalog.entry(row.recipe)
        if entry is None or entry["digest"] != spec.spec.recipe.digest:
            raise LaunchRefusedError("package-corrupt", {"detail": "the recipe was replaced since admission"})
        given = CapsuleInput(
            job_id=row.id,
            owner=row.owner,
            attempt=attempt.n,
            spec=spec,
            manifest=entry["manifest"],
            references=references,
            ingest_address=self._addresses.ingest_address,
            resume_from=attempt.resume_from,
        )
        capsule = build_capsule(given, storage)
        isolated = self._executor.capabilities().isolates
        try:
            files = await asyncio.to_thread(_lay_out, capsule, paths, isolated)
        except OSError as error:
            raise LaunchRefusedError("storage-failed", {"detail": str(error)}) from error
        token = await self._tokens.issue(row.id, attempt.n)
        resume = (Path(attempt.resume_from),) if attempt.resume_from else ()
        return LaunchPlan(
            job_id=row.id,
            attempt=attempt.n,
            image=row.runtime["image"],
            capsule=paths.capsule,
            env=self._environment(row, attempt, spec, paths, token),
            read_only=(paths.capsule, storage.package(row.package_digest), *references.read_only, *resume),
            writable=(paths.out, paths.spool, storage.data_cache, storage.hub_cache),
            machines=_machines(attempt),
            capsule_digest=files[words.CAPSULE_FILE],
            files=files,
            grace=timedelta(seconds=spec.spec.limits.grace) + WIND_UP,
            pools=tuple(_pool(pool) for pool in pool_requests(spec)),
            priority=row.priority,
            max_seconds=row.max_seconds,
            experiment=row.experiment,
            owner=row.owner,
            project=row.project,
        )

    def _environment(
        self, row: JobRow, attempt: AttemptRow, spec: JobSpec, paths: AttemptPaths, token: str
    ) -> dict[str, str]:
        return {
            **{words.ENV_USER_PREFIX + name: value for name, value in spec.spec.env.items()},
            **self._offered,
            words.ENV_CAPSULE_DIR: str(paths.capsule),
            words.ENV_RUN_ID: row.id,
            words.ENV_ATTEMPT: str(attempt.n),
            words.ENV_INGEST_URL: ingest_url(self._addresses.ingest_address, row.id),
            words.ENV_INGEST_TOKEN: token,
        }

    async def _fetch_package(self, digest: str) -> None:
        try:
            await self._store.fetch(key_of(digest), self._planner.storage.package(digest))
        except ObjectMissingError:
            raise LaunchRefusedError("package-corrupt", {"detail": "the package is gone"}) from None
        except (StoreUnavailableError, OSError) as error:
            raise LaunchRefusedError("storage-failed", {"detail": str(error)[:1000]}) from error


def _lay_out(capsule: Capsule, paths: AttemptPaths, isolated: bool) -> dict[str, str]:
    """Returns what the capsule holds: name -> SHA-256."""
    for directory in (paths.out, paths.spool):
        directory.mkdir(parents=True, exist_ok=True)
        if isolated:  # the user of the image is not ours to choose, and nobody else is in the container
            directory.chmod(0o777)
    for cache in (capsule.paths.data_cache, capsule.paths.hub_cache):
        Path(cache).mkdir(parents=True, exist_ok=True)
    return write_capsule(capsule, paths.capsule, private=not isolated)


def planned_handle(attempt: AttemptRow) -> Handle:
    """Where to look for the attempt as long as nobody knows what became of its launch."""
    return Handle(attempt.job_id, attempt.n, nodes=tuple(item["node"] for item in attempt.placement))


def _machines(attempt: AttemptRow) -> tuple[MachinePlan, ...]:
    """Machine rank is the position in the placement."""
    return tuple(_machine(rank, item) for rank, item in enumerate(attempt.placement))


def _machine(rank: int, item: dict[str, Any]) -> MachinePlan:
    memory = int(item["memory_gb"] * GIB) or None
    return MachinePlan(rank, item["node"], tuple(item["gpus"]), item["cpus"] or None, memory)


def _pool(pool: PoolRequest) -> PoolPlan:
    return PoolPlan(pool.name, pool.profile, pool.nodes, pool.gpus_per_node, pool.cpus, pool.memory_gb)


def _owner(row: JobRow) -> Principal:
    """The job's owner as who asks for what its JobSpec names; no more than that."""
    return Principal(row.owner_id, row.owner, False, frozenset(SCOPES))
