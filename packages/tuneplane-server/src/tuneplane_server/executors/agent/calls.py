"""Calls of the console to its nodes: one client for each, what is asked often kept for a moment, and for how long one is away.

Hundreds of runs are looked at every other second. What a node has is one call whoever asks, and a node that does not answer costs
one time-out at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tuneplane_node.client import NodeClient, NodeError, NodeUnreachableError
from tuneplane_node.engine import LABEL_ATTEMPT, LABEL_JOB
from tuneplane_node.engine.problems import plain_values
from tuneplane_node.wire import ContainerSeen
from tuneplane_server.features.nodes.node import Node, NodeProblem

KEPT_SECONDS = 1.0  # how old an answer may be that several ask for
AWAY_SECONDS = 2.0  # how long a node that did not answer is not asked again

type Attempt = tuple[str, int]


class NodeDirectory(Protocol):
    """What the executor asks of the feature `nodes`."""

    async def list(self) -> Sequence[Node]:
        """Without removed ones; cheap."""
        ...

    async def get(self, name: str) -> Node | None:
        """Removed ones too."""
        ...

    async def fence(self, name: str, job_id: str, attempt: int) -> None:
        """The attempt was given up on that node; may be repeated."""
        ...

    async def called(self, name: str, problem: NodeProblem | None) -> None:
        """A call reached the node (None), or why not."""
        ...


class UnknownNodeError(Exception):
    """No node of that name ever joined."""


@dataclass(frozen=True)
class _Answer:
    """What a node had, or why it did not say. `at`: monotonic time of the question."""

    at: float
    containers: Mapping[Attempt, tuple[ContainerSeen, ...]]
    error: NodeError | NodeUnreachableError | None


class NodeCalls:
    def __init__(
        self,
        directory: NodeDirectory,
        token: str | Callable[[], str],
        *,
        ca_file: Path | None = None,
        connect: Callable[..., NodeClient] = NodeClient,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory, self._token, self._ca_file, self._connect = directory, token, ca_file, connect
        self._clock = clock
        self._clients: dict[str, NodeClient] = {}
        self._whose: dict[str, tuple[str, str]] = {}  # node -> address and id of its client
        self._answers: dict[str, _Answer] = {}
        self._asking: dict[str, asyncio.Task[_Answer]] = {}
        self._away: dict[str, float] = {}  # node -> since when no call of ours reached it

    async def close(self) -> None:
        for task in self._asking.values():
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    async def node(self, name: str) -> Node:
        """Raises `UnknownNodeError`."""
        found = await self._directory.get(name)
        if found is None:
            raise UnknownNodeError(name)
        return found

    def away_for(self, name: str) -> float:
        """For how many seconds no call of this process has reached the node; 0 when the last one did."""
        since = self._away.get(name)
        return 0.0 if since is None else self._clock() - since

    async def ask[T](self, name: str, question: Callable[[NodeClient], Awaitable[T]]) -> T:
        """The node's answer. Raises NodeError (it said no), NodeUnreachableError, `UnknownNodeError`."""
        client = await self._client(await self.node(name))
        try:
            answer = await question(client)
        except NodeUnreachableError as error:
            await self._missed(name, error)
            raise
        except NodeError:
            await self._reached(name)
            raise
        await self._reached(name)
        return answer

    async def tell[T](self, name: str, question: Callable[[NodeClient], Awaitable[T]]) -> T:
        """As `ask`, for what changes the node: what was known of its containers holds no longer."""
        try:
            return await self.ask(name, question)
        finally:
            self.forget(name)

    def forget(self, name: str) -> None:
        """The next one who asks gets an answer of that moment."""
        self._answers.pop(name, None)
        self._asking.pop(name, None)

    async def containers(self, name: str, attempt: Attempt) -> tuple[ContainerSeen, ...]:
        """What the node has of an attempt, as of the last second. Raises as `ask`."""
        return (await self.everything(name)).get(attempt, ())

    async def everything(self, name: str) -> Mapping[Attempt, tuple[ContainerSeen, ...]]:
        """All that the node has, by attempt, as of the last second. Raises as `ask`."""
        answer = self._answers.get(name)
        if answer is None or self._clock() - answer.at > (KEPT_SECONDS if answer.error is None else AWAY_SECONDS):
            answer = await self._shared(name)
        if answer.error is not None:
            raise answer.error
        return answer.containers

    async def _shared(self, name: str) -> _Answer:
        asking = self._asking.get(name)
        if asking is None:
            asking = self._asking[name] = asyncio.create_task(self._asked(name), name=f"containers of {name}")
        return await asyncio.shield(asking)

    async def _asked(self, name: str) -> _Answer:
        me, begun = asyncio.current_task(), self._clock()
        try:
            found = await self.ask(name, lambda client: client.containers())
            answer = _Answer(begun, _by_attempt(found), None)
        except (NodeError, NodeUnreachableError) as error:
            answer = _Answer(self._clock(), {}, error)
        finally:
            mine = self._asking.get(name) is me
            if mine:
                del self._asking[name]
        if mine:  # else something was changed meanwhile
            self._answers[name] = answer
        return answer

    async def _client(self, node: Node) -> NodeClient:
        known = self._clients.get(node.name)
        whose = (node.address, node.node_id)
        if known is not None and self._whose.get(node.name) == whose:
            return known
        self._whose[node.name] = whose
        client = self._clients[node.name] = self._connect(
            node.address, self._token, ca_file=self._ca_file, node_id=node.node_id
        )
        if known is not None:
            with suppress(Exception):
                await known.close()
        return client

    async def _missed(self, name: str, error: NodeUnreachableError) -> None:
        self._away.setdefault(name, self._clock())
        await self._directory.called(name, NodeProblem(error.code, plain_values(error.values), error.detail))

    async def _reached(self, name: str) -> None:
        if self._away.pop(name, None) is not None:
            await self._directory.called(name, None)


def _by_attempt(found: Sequence[ContainerSeen]) -> dict[Attempt, tuple[ContainerSeen, ...]]:
    grouped: dict[Attempt, list[ContainerSeen]] = {}
    for item in found:
        job, attempt = item.labels.get(LABEL_JOB, ""), item.labels.get(LABEL_ATTEMPT, "")
        if job and attempt.isdecimal():
            grouped.setdefault((job, int(attempt)), []).append(item)
    return {key: tuple(items) for key, items in grouped.items()}
