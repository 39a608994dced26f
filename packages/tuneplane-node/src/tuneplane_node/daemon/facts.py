"""What an announcement says of the machine, as it was known last: a driver or an engine that hangs must not silence the node."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable

from tuneplane_node.daemon.node import Node
from tuneplane_node.engine.inventory import Inventory
from tuneplane_node.engine.problems import Finding, NodeError
from tuneplane_node.wire import StrangerSeen

INVENTORY_SECONDS, FINDINGS_SECONDS, COUNT_SECONDS = 60.0, 300.0, 10.0  # nvidia-smi wakes every card
STRANGERS_SECONDS = 30.0  # a look goes through every process
FIRST_SECONDS = 5.0
_LOG = logging.getLogger("tuneplane_node")


class Kept[T]:
    """The last answer of `look`, which is asked again in the background when that is older than `seconds`."""

    def __init__(self, look: Callable[[], Awaitable[T]], seconds: float) -> None:
        self._look, self._seconds = look, seconds
        self._value: T | None = None
        self._asked = -math.inf
        self._task: asyncio.Task[None] | None = None

    async def get(self) -> T | None:
        """None as long as there was no answer; only the first one is waited for, and not for long."""
        if self._task is None and time.monotonic() - self._asked >= self._seconds:
            self._asked = time.monotonic()
            self._task = asyncio.create_task(self._ask())
        if self._value is None and self._task is not None:
            await asyncio.wait({self._task}, timeout=FIRST_SECONDS)
        return self._value

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _ask(self) -> None:
        try:
            self._value = await self._look()
        except (NodeError, OSError, ValueError) as problem:
            _LOG.debug("%s", problem)  # `check` says what is wrong; the last answer stands
        finally:
            self._task = None


class Facts:
    def __init__(self, node: Node) -> None:
        self.inventory: Kept[Inventory] = Kept(node.engine.inventory, INVENTORY_SECONDS)
        self.findings: Kept[list[Finding]] = Kept(node.check, FINDINGS_SECONDS)
        self.containers: Kept[int] = Kept(node.count, COUNT_SECONDS)
        self.strangers: Kept[list[StrangerSeen]] = Kept(node.strangers, STRANGERS_SECONDS)

    async def close(self) -> None:
        for kept in (self.inventory, self.findings, self.containers, self.strangers):
            await kept.close()
