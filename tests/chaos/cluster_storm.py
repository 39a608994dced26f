"""A storm over several nodes: their daemons, cables, current and clocks, beside the console and the jobs."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from tests.chaos.bench import Wanted
from tests.chaos.cluster_bench import LOST_SECONDS, ClusterBench
from tests.chaos.storm import CABLE, CALM_SECONDS, CLOCK, CURRENT, DAEMON, Storm
from tests.services.cluster import Node

OF_NODES = (DAEMON, CABLE, CURRENT, CLOCK)


@dataclass
class ClusterStorm(Storm):
    """`node_hits`: node -> what of it was hit in this storm, whatever ran there then."""

    node_hits: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _mending: list[Future[None]] = field(default_factory=list)

    @property
    def cluster_bench(self) -> ClusterBench:
        assert isinstance(self.bench, ClusterBench)
        return self.bench

    def hits_of(self, run: str, attempt: int, nodes: tuple[str, ...]) -> set[str]:
        of_nodes = set().union(*(self.node_hits[node] for node in nodes)) - {CLOCK}
        return super().hits_of(run, attempt, nodes) | of_nodes

    def calm(self) -> None:
        super().calm()
        # No fence is left: what was given up was found and removed.
        self.cluster_bench.cluster.wait_ready()

    def _wanted(self, rng: random.Random) -> Wanted:
        return replace(super()._wanted(rng), nodes=rng.choice((1, 1, 2)))

    def _hitting(self, rng: random.Random, target: str) -> Callable[[], None]:
        if target not in OF_NODES:
            return super()._hitting(rng, target)
        node = rng.choice(list(self.cluster_bench.cluster.nodes.values()))
        gently, pause = rng.random() < 0.5, rng.uniform(0.0, 2.0)
        longer = rng.random() < 0.1
        cut = LOST_SECONDS + rng.uniform(1, 3) if longer else rng.uniform(0.2, 3.0)
        jump = rng.choice((-1, 1)) * 10 ** rng.uniform(0, 4)
        return {
            DAEMON: lambda: self._hit_daemon(node, pause, gently=gently),
            CABLE: lambda: self._cut(node, cut),
            CURRENT: lambda: self._switch_off(node, pause),
            CLOCK: lambda: self._jump(node, jump),
        }[target]

    def _hit_daemon(self, node: Node, pause: float, *, gently: bool) -> None:
        self.note(f"{'SIGTERM' if gently else 'SIGKILL'} daemon of {node.name}, start after {pause:.2f} s")
        self.node_hits[node.name].add(DAEMON)
        (node.stop if gently else node.kill)()
        self._later(pause, lambda: self._start(node))

    def _cut(self, node: Node, seconds: float) -> None:
        self.note(f"cut {node.name} off for {seconds:.2f} s")
        self.node_hits[node.name].add(CABLE)
        node.machine.cut()
        self._later(seconds, node.machine.mend)

    def _switch_off(self, node: Node, pause: float) -> None:
        self.note(f"no current for {node.name}, start after {pause:.2f} s")
        self.node_hits[node.name].add(CURRENT)
        node.power_off()
        self._later(pause, lambda: self._start(node))

    def _jump(self, node: Node, seconds: float) -> None:
        self.note(f"the clock of {node.name} is off by {seconds:.0f} s")
        self.node_hits[node.name].add(CLOCK)
        node.set_clock(seconds)

    def _start(self, node: Node) -> None:
        if not node.running:  # two hits of one round may both bring it back
            node.spawn()

    def _later(self, seconds: float, act: Callable[[], object]) -> None:
        def call() -> None:
            time.sleep(seconds)
            act()

        self._mending.append(self._calls.submit(call))

    def _revive(self) -> None:
        """Cables are mended, daemons are there again, clocks are right; nobody waits until the console knows."""
        for call in self._mending:
            call.result(timeout=CALM_SECONDS)
        self._mending.clear()
        for node in self.cluster_bench.cluster.nodes.values():
            node.machine.mend()
            node.set_clock(0)
            if not node.running:
                self.witness.faults.append(
                    f"the daemon of {node.name} ended by itself; its log ends: {node.log()[-2000:]}"
                )
                node.spawn()
        super()._revive()
