"""An attempt that a Slurm in memory has been given."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tests.tuneplane_server.executors.slurm.memory import (
    MemorySlurm,
    Time,
    a_plan,
    an_executor,
    directory_of,
)
from tuneplane_server.executors.port import (
    Handle,
    LaunchPlan,
    PoolPlan,
)
from tuneplane_server.executors.slurm.executor import SlurmExecutor

TWO_POOLS = (PoolPlan("train", "h200", 2, 8), PoolPlan("rollout", "h200", 1, 4))


class Stage:
    """An attempt that Slurm has been given, as its job 17."""

    def __init__(self, root: Path, pools: tuple[PoolPlan, ...] = ()) -> None:
        self.slurm = MemorySlurm(Time())
        self.plan: LaunchPlan = a_plan(root, pools=pools)
        self.executor: SlurmExecutor = an_executor(self.slurm, root)

    async def launch(self) -> Handle:
        return await self.executor.launch(self.plan)

    def leave(self, **files: str) -> None:
        for name, text in files.items():
            (directory_of(self.plan) / name.replace("__", ".").replace("_", "-")).write_text(text)


def hold(claim: Path) -> int:
    """As a runner does as long as it lives; the open file."""
    claim.parent.mkdir(parents=True)
    fd = os.open(claim, os.O_RDWR | os.O_CREAT)
    os.write(fd, b"{}")
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd
