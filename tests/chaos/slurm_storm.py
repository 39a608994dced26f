"""A storm over Slurm: its controller and its REST daemon, beside the console and the jobs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from tests.chaos.slurm_bench import SlurmBench
from tests.chaos.slurm_traces import excuses, traces
from tests.chaos.storm import CONTROLLER, REST, Storm

ALIVE = {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING"}
DAEMONS = {CONTROLLER: "slurmctld", REST: "slurmrestd"}
# A job that Slurm starts once more waits up to six minutes for a sign of its first start.
FORGETTING_CALM_SECONDS = 600.0


@dataclass
class SlurmStorm(Storm):
    """`forgetting`: the controller is killed as well as stopped; then it does not know of its last seconds, gives numbers away twice,
    and some runs take minutes to be sure of. `killed`: when that was (Unix seconds). One that is stopped writes down all that it knows.
    """

    forgetting: bool = False
    killed: list[float] = field(default_factory=list)
    _mending: list[Future[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.forgetting:
            self.calm_seconds = FORGETTING_CALM_SECONDS

    @property
    def slurm_bench(self) -> SlurmBench:
        assert isinstance(self.bench, SlurmBench)
        return self.bench

    def hits_of(self, run: str, attempt: int, nodes: tuple[str, ...]) -> set[str]:
        found = list(traces(self.bench.console.storage))
        return super().hits_of(run, attempt, nodes) | excuses(found, run, attempt, self.killed)

    def _hitting(self, rng: random.Random, target: str) -> Callable[[], None]:
        if target not in DAEMONS:
            return super()._hitting(rng, target)
        pause = rng.choice((0.0, rng.uniform(0.0, 4.0)))
        gently = target == CONTROLLER and (not self.forgetting or rng.random() < 0.5)
        return lambda: self._hit_daemon(target, pause, gently=gently)

    def _hit_daemon(self, kind: str, pause: float, *, gently: bool) -> None:
        daemon, cluster = DAEMONS[kind], self.slurm_bench.cluster
        if not cluster.running(daemon):
            return self.note(f"no {daemon} to kill")
        self.note(f"{'SIGTERM' if gently else 'SIGKILL'} {daemon}, start after {pause:.2f} s")
        if kind == CONTROLLER and not gently:
            self.killed.append(time.time())
        (cluster.stop if gently else cluster.kill)(daemon)

        def start() -> None:
            time.sleep(pause)
            cluster.start(daemon)

        self._mending.append(self._calls.submit(start))
        return None

    def calm(self) -> None:
        super().calm()
        # What a controller that was killed takes for running ends when it hears of its nodes.
        cluster = self.slurm_bench.cluster
        cluster.wait(
            "nothing is left in Slurm", lambda: not ALIVE.intersection(cluster.jobs().values()), self.calm_seconds
        )

    def _revive(self) -> None:
        for call in self._mending:
            call.result(timeout=self.calm_seconds)
        self._mending.clear()
        self.slurm_bench.cluster.wait("Slurm answers", self.slurm_bench.cluster.answers)
        super()._revive()
