"""The joiner: calls each node that has joined, proves its storage root, and has it clean up what was given up there.

One console calls one node at a time, by lease. A node that does not answer rests alone: shortly while it announces itself, longer
and longer while it is silent, and not at all once it is heard of again or its daemon was started anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from tuneplane.i18n import N_
from tuneplane_node.client import NodeClient, NodeError, NodeUnreachableError
from tuneplane_node.engine.problems import plain_values
from tuneplane_server.background.leases import Lease
from tuneplane_server.background.loop import Work
from tuneplane_server.clock import Clock
from tuneplane_server.domain.findings import NODES_REFUSED, NODES_UNREACHABLE
from tuneplane_server.domain.nodes import PROVE_EVERY, UNHEARD_AFTER, NodeHealth, NodeState
from tuneplane_server.features.nodes.building import daemon_start
from tuneplane_server.features.nodes.node import Fence, Node, NodeProblem
from tuneplane_server.features.nodes.service import NodesService
from tuneplane_server.findings import Findings
from tuneplane_server.storage.identity import ROOT_OF_CONSOLE, StorageIdentity

log = structlog.get_logger(__name__)

REFUSED_AGAIN = timedelta(seconds=15)  # somebody mends the mount and waits
REST, LONGEST_REST = timedelta(seconds=8), timedelta(minutes=2)
FORGET_EVERY = timedelta(hours=1)
NAMED = 5  # nodes that a banner names
_FORGET = "-"  # no node has this name
OTHER_NODE = N_("another node answers there")


@dataclass(frozen=True)
class Call:
    """What is to be done at one address. `node`: None for a machine that has lost its name to another one."""

    node: Node | None
    node_id: str
    address: str
    prove: bool
    fences: tuple[Fence, ...]


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
        self._rests: dict[str, Rest] = {}  # by row id

    async def due(self) -> Sequence[Work]:
        now = self._clock.now()
        nodes = await self._nodes.list()
        self._say(nodes)
        work = [Work(node.name, call) for node in nodes if (call := _call_of(node, now)) is not None]
        work += await self._strangers()
        wanted = {item.row_id for item in work}
        self._rests = {row_id: rest for row_id, rest in self._rests.items() if row_id in wanted}
        work = [item for item in work if not self._rests_now(item, now)]
        if self._forgot is None or now - self._forgot >= FORGET_EVERY:
            work.append(Work(_FORGET, None))
        return work

    async def handle(self, work: Work, lease: Lease) -> None:
        if work.item is None:
            await self._nodes.forget_removed()
            self._forgot = self._clock.now()
            return
        call: Call = work.item
        client = self._connect(call.address)
        try:
            why = await self._visit(call, client)
        except NodeUnreachableError as error:
            why = str(error)
            await self._note(call, NodeProblem(error.code, plain_values(error.values), error.detail))
        except NodeError as error:
            why = str(error)
            log.warning("a node refused a call", address=call.address, why=why)
        finally:
            await client.close()
        if why:
            self._let_rest(work)
        else:
            self._rests.pop(work.row_id, None)

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        """The loop has logged it and lets the node rest."""

    async def _visit(self, call: Call, client: NodeClient) -> str:
        """Why it has to be visited again soon; empty when all is done."""
        hello = await client.hello()
        if hello.node_id != call.node_id:
            raise NodeUnreachableError("node-answer", hello.node_id, address=call.address, why=OTHER_NODE)
        await self._note(call, None)
        if call.prove and call.node is not None:
            problem = await self._identity.prove(client.prove_storage)
            if problem is not None and problem.code == ROOT_OF_CONSOLE:
                log.error("the console cannot use its storage root", path=problem.values["path"], why=problem.detail)
                return problem.detail
            said = None if problem is None else NodeProblem(problem.code, problem.values, problem.detail)
            await self._nodes.proved(call.node.name, daemon_start(hello), said)
        for fence in call.fences:
            if not await client.cleanup_attempt(fence.job_id, fence.attempt):
                return f"something of {fence.job_id} is still there"
            await self._nodes.unfence(fence.node, fence.job_id, fence.attempt)
        return ""

    def _rests_now(self, work: Work, now: datetime) -> bool:
        rest = self._rests.get(work.row_id)
        return rest is not None and now < rest.until and rest.of == _sign(work.item, now)

    def _let_rest(self, work: Work) -> None:
        now = self._clock.now()
        sign, before = _sign(work.item, now), self._rests.get(work.row_id)
        times = 0 if before is None or before.of != sign else before.times
        announces = sign[1]
        rest = REST if announces else min(LONGEST_REST, REST * 2 ** min(times, 10))
        self._rests[work.row_id] = Rest(now + rest, times + 1, sign)

    async def _note(self, call: Call, problem: NodeProblem | None) -> None:
        if call.node is not None:
            await self._nodes.called(call.node.name, problem)

    async def _strangers(self) -> list[Work]:
        """What was given up on a machine is ended there, also when another one has its name now."""
        found = []
        for stranger in self._nodes.strangers():
            fences = tuple(f for f in await self._nodes.fences(stranger.name) if f.node_id == stranger.node_id)
            if fences:
                call = Call(None, stranger.node_id, stranger.address, prove=False, fences=fences)
                found.append(Work(f"?{stranger.node_id}"[:64], call))
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


def _sign(call: Call | None, now: datetime) -> tuple[str, bool]:
    """What must be another for a node to be called before its rest is over."""
    if call is None or call.node is None:
        return "", True
    return call.node.daemon_start, now - call.node.last_heard < UNHEARD_AFTER


def _call_of(node: Node, now: datetime) -> Call | None:
    """None when there is nothing to say to the node."""
    removed = node.state is NodeState.REMOVED
    prove = not removed and _proof_is_due(node, now)
    silent = not removed and not node.heard
    if not (prove or silent or (node.fences and node.heard)):
        return None
    return Call(node, node.node_id, node.address, prove, node.fences)


def _proof_is_due(node: Node, now: datetime) -> bool:
    """At joining, after each start of its daemon, and again and again."""
    if node.asked_at is None:
        return True
    return now - node.asked_at >= (PROVE_EVERY if node.proved_at is not None else REFUSED_AGAIN)
