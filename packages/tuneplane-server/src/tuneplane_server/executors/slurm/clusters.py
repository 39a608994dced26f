"""What the cluster is made of, asked rarely: machines and partitions change seldom, and everybody wants to know them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from tuneplane_server.executors.slurm.rest.client import SlurmClient
from tuneplane_server.executors.slurm.submitting import Cluster

KEPT_SECONDS = 5.0


class ClusterFacts:
    def __init__(self, client: SlurmClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._lock = asyncio.Lock()
        self._kept: tuple[float, Cluster] | None = None

    async def get(self) -> Cluster:
        """As of the last seconds. Raises SlurmError."""
        async with self._lock:
            if self._kept is None or self._clock() - self._kept[0] > KEPT_SECONDS:
                begun = self._clock()
                nodes, partitions = await self._client.nodes(), await self._client.partitions()
                self._kept = begun, Cluster(tuple(nodes), tuple(partitions))
            return self._kept[1]
