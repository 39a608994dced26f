"""When a node is given up: nobody has heard of it, no call reaches it, and the run's own runner is silent too, for long enough.

What was given up stays given up: it gets a fence, which the node must have executed before it gets work again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

from tuneplane_server.clock import Clock
from tuneplane_server.domain.nodes import NodeState
from tuneplane_server.executors.agent.calls import NodeCalls, NodeDirectory
from tuneplane_server.features.nodes.node import Node

type Heartbeats = Callable[[str, int], Awaitable[Mapping[int, datetime]]]


class LostNodes:
    """`after`: None, no node is ever given up. `heartbeats(job, attempt)`: machine rank -> when its runner was heard last.

    Silence is counted by two clocks: the wall's, which may jump, and this process's own since its first call that failed. So
    neither a jump nor a console that was away for an hour gives anything up.
    """

    def __init__(
        self,
        directory: NodeDirectory,
        calls: NodeCalls,
        clock: Clock,
        heartbeats: Heartbeats,
        after: timedelta | None,
    ) -> None:
        self._directory, self._calls, self._clock = directory, calls, clock
        self._heartbeats, self._after = heartbeats, after

    async def why_fenced(self, name: str, job_id: str, attempt: int) -> str | None:
        """Why this attempt was given up on that node, in the words of the reason's detail; None when it was not. On a node that
        was removed it is: then it is fenced.
        """
        node = await self._directory.get(name)
        if node is None:
            return None
        given_up = any((fence.job_id, fence.attempt) == (job_id, attempt) for fence in node.fences)
        if node.state is NodeState.REMOVED:
            if not given_up:
                await self._directory.fence(name, job_id, attempt)
            return f"{name} was removed by {node.state_by}"
        return _silent_since(node) if given_up else None

    async def why_lost(self, name: str, job_id: str, attempt: int, rank: int) -> str | None:
        """As `why_fenced`, of a node that a call has just not reached: when it has been silent for long enough, the attempt is
        given up there, and fenced.
        """
        node = await self._directory.get(name)
        if node is None or not self._is_silent(node) or not await self._is_unheard(job_id, attempt, rank):
            return None
        await self._directory.fence(name, job_id, attempt)
        return _silent_since(node)

    def _is_silent(self, node: Node) -> bool:
        if self._after is None:
            return False
        away = timedelta(seconds=self._calls.away_for(node.name))
        return away >= self._after and self._clock.now() - node.last_heard >= self._after

    async def _is_unheard(self, job_id: str, attempt: int, rank: int) -> bool:
        beat = (await self._heartbeats(job_id, attempt)).get(rank)
        return beat is None or self._after is None or self._clock.now() - beat >= self._after


def _silent_since(node: Node) -> str:
    return f"{node.name} is silent since {node.last_heard:%Y-%m-%d %H:%M:%S} UTC"
