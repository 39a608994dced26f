"""Submits rendered scripts to a real Slurm, as the executor does, and looks at what became of them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.services.slurm import SlurmCluster
from tuneplane_server.executors.slurm.rest.client import SlurmClient
from tuneplane_server.executors.slurm.rest.models import Component, SlurmJob, Submission
from tuneplane_server.executors.slurm.script import (
    MachineExit,
    Part,
    Profile,
    ScriptRequest,
    exit_file,
    parse_exit,
    render,
)

BOUND = 240.0
# The image of the tests' apptainer: this machine's programs.
IMAGE = "# image of the tests\nbind /usr\nbind /bin\nbind /lib\nbind /lib64\n"
SHOWS = 'env >"$OUT/env-$TUNEPLANE_MACHINE_RANK"\n'
# As the runner: it sees a SIGTERM, and a `stop` in its spool, and saves before it ends.
WAITS = """\
rank=$TUNEPLANE_MACHINE_RANK
saves() { echo "$1" >"$OUT/saved-$rank"; exit 143; }
trap 'saves TERM' TERM
: >"$OUT/running-$rank"
while [ ! -e "$OUT/../spool/rank-$rank/stop" ]; do sleep 0.1; done
saves stop
"""


@dataclass
class Stage:
    """Attempts on one cluster. `ids`: the Slurm jobs that were submitted."""

    cluster: SlurmCluster
    client: SlurmClient
    ids: list[int] = field(default_factory=list)

    async def submit(
        self,
        body: str,
        *parts: Part,
        partition: str = "main",
        minutes: int = 5,
        grace: float = 20,
        warning: tuple[str, int] | None = None,
        profile: Profile = "apptainer",
        image: Path | None = None,
        bundle: Mapping[str, Any] | None = None,
        **environment: str,
    ) -> Run:
        root = self.cluster.folder / f"run one {uuid.uuid4().hex[:8]}"
        for name in ("capsule", "slurm", "out", "spool"):
            (root / name).mkdir(parents=True)
            (root / name).chmod(0o1777)
        (root / "capsule" / "bootstrap.sh").write_text(body)
        if image is None:
            image = self.cluster.folder / "host.sif"
            image.write_text(IMAGE)
        environment = {**environment, "OUT": str(root / "out")}
        request = ScriptRequest(
            job_id=root.name,
            attempt=1,
            profile=profile,
            image=str(image),
            capsule=root / "capsule",
            slurm_dir=root / "slurm",
            storage_root=self.cluster.folder,
            parts=parts,
            environment_names=tuple(environment),
            read_only=(root / "capsule",),
            writable=(root / "out",),
            grace=grace,
            bundle=bundle,
        )
        script = render(request)
        for name, text in script.files.items():
            (root / "slurm" / name).parent.mkdir(exist_ok=True)
            (root / "slurm" / name).write_text(text)
        submission = Submission(
            name=root.name,
            comment="tests",
            script=script.text,
            components=tuple(
                Component(part.machines, part.gpus, "h200" if part.gpus else None, partition=partition)
                for part in parts
            ),
            environment={"PATH": "/usr/local/bin:/usr/bin:/bin", **environment},
            directory=str(root / "slurm"),
            output=str(root / "slurm" / "job.out"),
            time_limit_minutes=minutes,
            warning=warning,
        )
        self.ids.append(await self.client.submit(submission))
        return Run(self.client, self.ids[-1], root, sum(part.machines for part in parts))


@dataclass(frozen=True)
class Run:
    client: SlurmClient
    id: int
    root: Path
    machines: int

    async def wait(self, what: str, there: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(BOUND):
                while True:
                    if there():
                        return
                    await asyncio.sleep(0.1)
        except TimeoutError:
            jobs = await self.client.job(self.id)
            raise AssertionError(f"{what}: {[sorted(job.states) for job in jobs]}\n{self.output}") from None

    async def running(self) -> None:
        files = [self.root / "out" / f"running-{rank}" for rank in range(self.machines)]
        await self.wait("all run", lambda: all(file.exists() for file in files))

    async def ended(self) -> SlurmJob:
        """The leader, when all components are over."""
        async with asyncio.timeout(BOUND):
            while True:
                jobs = await self.client.job(self.id)
                alive = {"PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING", "SIGNALING"}
                if jobs and not any(job.states & alive for job in jobs):
                    return jobs[0]
                await asyncio.sleep(0.1)

    @property
    def output(self) -> str:
        path = self.root / "slurm" / "job.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def saved(self, rank: int) -> bool:
        return (self.root / "out" / f"saved-{rank}").exists()

    def environment(self, rank: int) -> dict[str, str]:
        lines = (self.root / "out" / f"env-{rank}").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    async def end_of(self, rank: int) -> MachineExit:
        """srun may learn of its step's end a moment after Slurm calls the job over."""
        path = self.root / "slurm" / exit_file(rank)
        await self.wait(f"the end of machine {rank} is written", path.exists)
        found = parse_exit(path.read_text())
        assert found is not None
        return found


def stage_on(cluster: SlurmCluster) -> Stage:
    return Stage(cluster, SlurmClient(cluster.url, cluster.user, cluster.token_file))


async def end_all(stage: Stage) -> None:
    """Nothing runs on when a test is over."""
    for job_id in stage.ids:
        await stage.client.signal(job_id, "KILL")
        await Run(stage.client, job_id, Path(), 0).ended()
    await stage.client.close()
