"""The joiner: calls each node that has joined, proves its storage root, and has it clean up what was given up there.

Nodes are called in batches, each of one lease, beside each other; what came of it is written for all of a batch together, and at the
latest after a second for those that have answered. Those that are silent, refused or failed the last time are in batches of their own,
so that nobody waits for a time-out of theirs. A node that does not answer rests alone: shortly while it announces itself, longer and longer while it is silent, and not at
all once it is heard of again or its daemon was started anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from tuneplane.i18n import N_
from tuneplane_node.client import NodeClient, NodeError, NodeUnreachableError
from tuneplane_node.engine.problems import plain_values
from tuneplane_node.wire import NodeHello
from tuneplane_server.background.batches import batches
from tuneplane_server.background.leases import Lease
from tuneplane_server.background.loop import Work
from tuneplane_server.clock import Clock
from tuneplane_server.domain.findings import NODES_REFUSED, NODES_UNREACHABLE
from tuneplane_server.domain.nodes import PROVE_EVERY, UNHEARD_AFTER, NodeHealth, NodeState
from tuneplane_server.features.nodes.building import daemon_start
from tuneplane_server.features.nodes.node import Fence, Node, NodeProblem
from tuneplane_server.features.nodes.service import NodesService
from tuneplane_server.features.nodes.texts import NODE_CLONED, NODE_RENAMED
from tuneplane_server.features.nodes.visits import Proof, Visit
from tuneplane_server.findings import Findings
from tuneplane_server.storage.identity import ROOT_OF_CONSOLE, StorageIdentity

log = structlog.get_logger(__name__)

REFUSED_AGAIN = timedelta(seconds=15)  # somebody mends the mount and waits
REST, LONGEST_REST = timedelta(seconds=8), timedelta(minutes=2)
FORGET_EVERY = timedelta(hours=1)
NAMED = 5  # nodes that a banner names
BATCH = 25  # nodes of one lease and one transaction
CALLS = 4  # of one batch beside each other
WRITE_EVERY_SECONDS = 1.0
_FORGET = "-"
OTHER_NODE = N_("another node answers there")


@dataclass(frozen=True)
class Call:
    """What is to be done at one address. `node`: None for a machine that has lost its name to another one. `left`: attempts that were
    given up under another node id, and are seen there.
    """

    node: Node | None
    node_id: str
    address: str
    prove: bool
    fences: tuple[Fence, ...]
    left: tuple[Fence, ...] = ()


@dataclass(frozen=True)
class Rest:
    """Until when a node is left alone. `of`: the start of its daemon, and whether it announced itself then."""

    until: datetime
    times: int
    of: tuple[str, bool]


class Joiner:
    name = "joiner"
    topics = ("joiner",)
    interval = 5.0

    def __init__(
        self,
        clock: Clock,
        nodes: NodesService,
        identity: StorageIdentity,
        connect: Callable[[str], NodeClient],
        findings: Findings,
    ) -> None:
        self._clock, self._nodes, self._identity = clock, nodes, identity
        self._connect, self._findings = connect, findings
        self._forgot: datetime | None = None
        self._rests: dict[str, Rest] = {}  # by key

    async def due(self) -> Sequence[Work]:
        now = self._clock.now()
        nodes = await self._nodes.list()
        self._say(nodes)
        given_up = {(item.node_id, item.job_id, item.attempt): item for item in await self._nodes.fences()}
        calls = {node.name: call for node in nodes if (call := _call_of(node, given_up, now)) is not None}
        strangers = await self._strangers()
        self._rests = {key: rest for key, rest in self._rests.items() if key in calls or key in strangers}
        names = [node.name for node in nodes]
        slow = {node.name for node in nodes if not node.heard or node.health is NodeHealth.REFUSED} | self._rests.keys()
        work = [
            *self._batches("batch", names, {name: call for name, call in calls.items() if name not in slow}, now),
            *self._batches("slow", names, {name: call for name, call in calls.items() if name in slow}, now),
            *(Work(key, (call,)) for key, call in strangers.items() if not self._rests_now(call, now)),
        ]
        if self._forgot is None or now - self._forgot >= FORGET_EVERY:
            work.append(Work(_FORGET, None))
        return work

    async def handle(self, work: Work, lease: Lease) -> None:
        if work.item is None:
            await self._nodes.forget_removed()
            self._forgot = self._clock.now()
            return
        slots = asyncio.Semaphore(CALLS)
        visiting = {asyncio.create_task(self._visit(call, slots), name=f"visit {call.node_id}") for call in work.item}
        try:
            while visiting:
                done, visiting = await asyncio.wait(visiting, timeout=WRITE_EVERY_SECONDS)
                visits = [visit for task in done if (visit := task.result()) is not None]
                await self._nodes.visited(visits)
        finally:
            for task in visiting:
                task.cancel()
            await asyncio.gather(*visiting, return_exceptions=True)

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        """The loop has logged it and lets the node rest."""

    def _batches(self, lane: str, names: Sequence[str], calls: Mapping[str, Call], now: datetime) -> Iterator[Work]:
        """Of all nodes, so that each stays in its batch whoever else is to be called."""
        for row_id, batch in batches(names, BATCH, lane):
            wanted = tuple(call for name in batch if (call := calls.get(name)) and not self._rests_now(call, now))
            if wanted:
                yield Work(row_id, wanted)

    async def _visit(self, call: Call, slots: asyncio.Semaphore) -> Visit | None:
        """What is to be written of it; None for a machine that has lost its name."""
        async with slots:
            problem, proof, why = None, None, ""
            client = self._connect(call.address)
            try:
                hello = await client.hello()
                if hello.node_id != call.node_id or (call.node is not None and hello.name != call.node.name):
                    detail = f"{hello.name} {hello.node_id}"
                    raise NodeUnreachableError("node-answer", detail, address=call.address, why=OTHER_NODE)
                proof, why = await self._prove(call, client, hello)
                why = why or await self._end_fenced(call, client)
            except NodeUnreachableError as error:
                why = str(error)
                problem = NodeProblem(error.code, plain_values(error.values), error.detail)
            except NodeError as error:
                why = str(error)
                log.warning("a node refused a call", address=call.address, why=why)
            finally:
                await client.close()
        if why:
            self._let_rest(call)
        else:
            self._rests.pop(_key(call), None)
        return None if call.node is None else Visit(call.node.name, problem=problem, proof=proof)

    async def _prove(self, call: Call, client: NodeClient, hello: NodeHello) -> tuple[Proof | None, str]:
        """(what was found, why it has to be visited again soon)"""
        if not call.prove or call.node is None:
            return None, ""
        problem = await self._identity.prove(client.prove_storage)
        if problem is not None and problem.code == ROOT_OF_CONSOLE:
            log.error("the console cannot use its storage root", path=problem.values["path"], why=problem.detail)
            return None, problem.detail
        said = None if problem is None else NodeProblem(problem.code, problem.values, problem.detail)
        return Proof(daemon_start(hello), said), ""

    async def _end_fenced(self, call: Call, client: NodeClient) -> str:
        """Why it has to be visited again soon; empty when all is done."""
        for fence in call.fences:
            if not await client.cleanup_attempt(fence.job_id, fence.attempt):
                return f"something of {fence.job_id} is still there"
            await self._nodes.unfence(fence.node, fence.job_id, fence.attempt)
        for fence in call.left:
            if not await client.cleanup_attempt(fence.job_id, fence.attempt, fence.node_id):
                return f"something of {fence.job_id} is still there"
            await self._nodes.unfence(fence.node, fence.job_id, fence.attempt)
        return ""

    def _rests_now(self, call: Call, now: datetime) -> bool:
        rest = self._rests.get(_key(call))
        return rest is not None and now < rest.until and rest.of == _sign(call, now)

    def _let_rest(self, call: Call) -> None:
        now, key = self._clock.now(), _key(call)
        sign, before = _sign(call, now), self._rests.get(key)
        times = 0 if before is None or before.of != sign else before.times
        announces = sign[1]
        rest = REST if announces else min(LONGEST_REST, REST * 2 ** min(times, 10))
        self._rests[key] = Rest(now + rest, times + 1, sign)

    async def _strangers(self) -> dict[str, Call]:
        """What was given up on a machine is ended there, also when another one has its name now. By key."""
        found = {}
        for stranger in self._nodes.strangers():
            if stranger.problem.code in (NODE_CLONED, NODE_RENAMED):
                continue  # what was given up under that id is perhaps on the other machine
            fences = tuple(f for f in await self._nodes.fences(stranger.name) if f.node_id == stranger.node_id)
            if fences:
                call = Call(None, stranger.node_id, stranger.address, prove=False, fences=fences)
                found[_key(call)] = call
        return found

    def _say(self, nodes: Iterable[Node]) -> None:
        """Of nodes that somebody took out of use on purpose nothing is said, unless runs were given up there."""
        mine = [node for node in nodes if node.state is NodeState.READY or node.fences]
        silent = [node.name for node in mine if not node.heard]
        refused = [node.name for node in mine if node.health is NodeHealth.REFUSED]
        for code, names in ((NODES_UNREACHABLE, silent), (NODES_REFUSED, refused)):
            if names:
                shown = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
                self._findings.put(code, {"count": len(names), "names": shown})
            else:
                self._findings.clear(code)


def _key(call: Call) -> str:
    """Who it is about. No node's name begins with a question mark."""
    return f"?{call.node_id}"[:64] if call.node is None else call.node.name


def _sign(call: Call, now: datetime) -> tuple[str, bool]:
    """What must be another for a node to be called before its rest is over."""
    if call.node is None:
        return "", True
    return call.node.daemon_start, now - call.node.last_heard < UNHEARD_AFTER


def _call_of(node: Node, given_up: Mapping[tuple[str, str, int], Fence], now: datetime) -> Call | None:
    """None when there is nothing to say to the node. A machine whose state was lost has another id now, and still what it had."""
    seen = ((left.instance, left.job, left.attempt) for left in node.strangers)
    left = tuple(given_up[key] for key in dict.fromkeys(seen) if key in given_up and key[0] != node.node_id)
    removed = node.state is NodeState.REMOVED
    prove = not removed and _proof_is_due(node, now)
    silent = not removed and not node.heard
    if not (prove or silent or ((node.fences or left) and node.heard)):
        return None
    return Call(node, node.node_id, node.address, prove, node.fences, left)


def _proof_is_due(node: Node, now: datetime) -> bool:
    """At joining, after each start of its daemon, and again and again."""
    if node.asked_at is None:
        return True
    return now - node.asked_at >= (PROVE_EVERY if node.proved_at is not None else REFUSED_AGAIN)
