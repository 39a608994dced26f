"""Puts the executor `agent` together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from tuneplane_server.clock import Clock
from tuneplane_server.executors.agent.calls import NodeCalls, NodeDirectory
from tuneplane_server.executors.agent.executor import AgentExecutor
from tuneplane_server.executors.agent.lost import LostNodes
from tuneplane_server.executors.local import LocalExecutor
from tuneplane_server.settings import Settings


class Beat(Protocol):
    """The newest heartbeat of one machine of an attempt."""

    rank: int
    received_at: datetime


def build_agent(
    settings: Settings,
    directory: NodeDirectory,
    token: Callable[[], str],
    clock: Clock,
    instance: str,
    heard: Callable[[str, int], Awaitable[Sequence[Beat]]],
) -> AgentExecutor:
    """`heard(job, attempt)`: the newest heartbeats of an attempt's runners."""

    async def heartbeats(job_id: str, attempt: int) -> dict[int, datetime]:
        return {beat.rank: beat.received_at for beat in await heard(job_id, attempt)}

    seconds = settings.node_lost_seconds
    calls = NodeCalls(directory, token, ca_file=settings.agent_ca_file)
    lost = LostNodes(directory, calls, clock, heartbeats, timedelta(seconds=seconds) if seconds else None)
    # What this console started on its own machine before the setting was changed lives on there.
    began_here = (settings.state_dir / "engine").is_dir()
    return AgentExecutor(directory, calls, lost, LocalExecutor(settings, instance) if began_here else None)
