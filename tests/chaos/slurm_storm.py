"""A storm over Slurm: its controller and its REST daemon, beside the console and the jobs."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from tests.chaos.slurm_bench import SlurmBench
from tests.chaos.storm import CALM_SECONDS, CONTROLLER, REST, Storm

ALIVE = {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING"}
DAEMONS = {CONTROLLER: "slurmctld", REST: "slurmrestd"}


@dataclass
class SlurmStorm(Storm):
    """`daemon_hits`: kind of daemon -> when it was ended, for all runs that were there then. `forgetting`: the controller is killed as
    well as stopped; then it does not know of its last seconds, gives numbers away twice, and some runs take minutes to be sure of.
    """

    forgetting: bool = False
    daemon_hits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    _mending: list[Future[None]] = field(default_factory=list)

    @property
    def slurm_bench(self) -> SlurmBench:
        assert isinstance(self.bench, SlurmBench)
        return self.bench

    def hits_of(self, run: str, attempt: int, nodes: tuple[str, ...]) -> set[str]:
        return super().hits_of(run, attempt, nodes) | set(self.daemon_hits)

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
        self.daemon_hits[kind].append(time.time())
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
        cluster.wait("nothing is left in Slurm", lambda: not ALIVE.intersection(cluster.jobs().values()), CALM_SECONDS)

    def _revive(self) -> None:
        for call in self._mending:
            call.result(timeout=CALM_SECONDS)
        self._mending.clear()
        self.slurm_bench.cluster.wait("Slurm answers", self.slurm_bench.cluster.answers)
        super()._revive()
