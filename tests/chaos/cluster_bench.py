"""What a storm over a cluster runs on: a console and three nodes, each of which can lose its daemon, its cable, its current and the time."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.bench import Bench, KillableConsole, Submitted, Wanted, counting_spec, records_in
from tests.chaos.processes import JobProcess, job_processes
from tests.services.cluster import Cluster, ClusterConsole, start_cluster
from tests.services.cluster_network import Network

NAMES = ("node-a", "node-b", "node-c")
# Most cuts are shorter, some are longer.
LOST_SECONDS = 8


class KillableClusterConsole(ClusterConsole, KillableConsole):
    """Listens on the management network, and is started and killed by threads of the storm."""


@dataclass
class ClusterBench(Bench):
    cluster: Cluster = field(kw_only=True)

    def processes(self) -> list[JobProcess]:
        """Without the daemons, and without what they start for a moment to look at their machine."""
        daemons = {node.process.pid for node in self.cluster.nodes.values() if node.process is not None}
        found = job_processes(self.console.storage, without=self.console.pid)
        return [item for item in found if _session_of(item.process.pid) not in daemons]

    def records(self) -> list[Path]:
        return [path for node in self.cluster.nodes.values() for path in records_in(node.state)]

    def temporaries(self) -> list[Path]:
        return [node.folder / "tmp" for node in self.cluster.nodes.values()]


def prepare(network: Network, folder: Path) -> ClusterBench:
    cluster = start_cluster(
        network, folder, *NAMES, console_class=KillableClusterConsole, TUNEPLANE_NODE_LOST_SECONDS=str(LOST_SECONDS)
    )
    console = cluster.console
    assert isinstance(console, KillableConsole)
    try:
        api, spec, first = counting_spec(console, folder)
    except BaseException:
        console.stop()
        raise
    submitted = [Submitted("", first, Wanted(1, 0.01))]
    return ClusterBench(console, api, spec, None, folder, submitted, cluster=cluster)


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0
