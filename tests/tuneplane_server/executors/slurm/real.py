"""The executor on a real cluster of the tests, and runs for it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.services.slurm import SlurmCluster
from tests.tuneplane_server.executors.slurm.memory import settings
from tuneplane_server.clock import SYSTEM_CLOCK
from tuneplane_server.domain.ids import make_id
from tuneplane_server.executors.port import LaunchPlan, MachinePlan, PoolPlan
from tuneplane_server.executors.slurm.building import build_client
from tuneplane_server.executors.slurm.executor import SlurmExecutor
from tuneplane_server.executors.slurm.rules import SlurmRules

SLURM_VERSIONS = ("22.05", "24.11")
ONE = (PoolPlan("main", "cpu", 1, 0),)


class OnCluster:
    """A storage root of its own on the cluster's shared folder."""

    def __init__(self, cluster: SlurmCluster) -> None:
        self.cluster = cluster
        self.root = cluster.folder / f"root-{uuid.uuid4().hex[:8]}"
        (self.root / "projects").mkdir(parents=True)
        self._image = self.root / "image.sif"
        binds = "".join(f"bind {path}\n" for path in ("/usr", "/bin", "/lib", "/lib64", "/sbin"))
        self._image.write_text(f"# image of the tests\n{binds}")

    def executor(self, url: str | None = None, **values: Any) -> SlurmExecutor:
        """One console's. `url`: of what stands before slurmrestd."""
        slurm = settings(
            url=url or self.cluster.url,
            user=self.cluster.user,
            token=None,
            token_file=self.cluster.token_file,
            **values,
        )
        executor = SlurmExecutor(build_client(slurm), SlurmRules(slurm, self.root), SYSTEM_CLOCK)
        executor.clearing.poll_seconds = 0.1
        return executor

    def new_id(self) -> str:
        return make_id(uuid.uuid4().int >> 81, uuid.uuid4().bytes[:4])

    def plan(
        self,
        script: str,
        *,
        job_id: str | None = None,
        attempt: int = 1,
        pools: tuple[PoolPlan, ...] = ONE,
        env: dict[str, str] | None = None,
    ) -> LaunchPlan:
        job = job_id or self.new_id()
        folder = self.root / "projects/ann/demo/jobs" / job / "attempts" / str(attempt)
        capsule = folder / "capsule"
        for directory in (capsule, folder / "out", folder / "spool"):
            directory.mkdir(parents=True, exist_ok=True)
        (folder / "out").chmod(0o777)
        (folder / "spool").chmod(0o777)
        (capsule / "bootstrap.sh").write_text(script)
        count = sum(pool.machines for pool in pools)
        return LaunchPlan(
            job_id=job,
            attempt=attempt,
            image=str(self._image),
            capsule=capsule,
            env={"TUNEPLANE_RUN_ID": job, **(env or {})},
            read_only=(capsule,),
            writable=(folder / "out", folder / "spool"),
            machines=tuple(MachinePlan(rank, f"slurm/{job}-{attempt}/{rank}", (), None, None) for rank in range(count)),
            pools=pools,
        )


type Clusters = Callable[[str], SlurmCluster]


def directory_of(plan: LaunchPlan) -> Path:
    return plan.capsule.parent / "slurm"
