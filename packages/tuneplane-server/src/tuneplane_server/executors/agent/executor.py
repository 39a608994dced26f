"""The executor `agent`: the port over many nodes. Runs of the time before it, on the console's own machine, live on through the
executor `local` that is embedded here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from tuneplane.i18n import _, ngettext
from tuneplane_node.client import NodeClient, NodeError, NodeUnreachableError
from tuneplane_node.engine import LABEL_ATTEMPT, LABEL_JOB, RuntimeHandle
from tuneplane_node.wire import ContainerSeen
from tuneplane_server.executors.agent import gang
from tuneplane_server.executors.agent.calls import NodeCalls, NodeDirectory, UnknownNodeError
from tuneplane_server.executors.agent.gang import Member
from tuneplane_server.executors.agent.handles import grace_of, is_agents, make_handle, nodes_of, of_rank
from tuneplane_server.executors.agent.launching import GangLauncher
from tuneplane_server.executors.agent.lost import LostNodes
from tuneplane_server.executors.agent.placement import capabilities_of, common_way, node_info
from tuneplane_server.executors.port import (
    Capabilities,
    CardFigures,
    CleanupState,
    ExecutorUnreachableError,
    Finding,
    Handle,
    LaunchPlan,
    NodeFigures,
    NodeInfo,
    Observation,
    RunFigures,
)

if TYPE_CHECKING:
    from tuneplane_server.executors.local import LocalExecutor

log = structlog.get_logger(__name__)

OUTPUT_TAIL_BYTES = 16 * 1024
LINGER_SECONDS = 60.0  # how long machines may run on after the first one has ended well
CHECKED_AT_ONCE = 32
LOOKED_THROUGH_AT_ONCE = 8  # somebody waits for a check; whoever looks for leftovers has time
# Between two calls of that look: a thousand without a pause took the whole console for seconds.
LOOKING_RESTS_SECONDS = 0.05
ELSEWHERE = "it was begun by the executor local of another console, on that one's machine"
_AWAY = (NodeUnreachableError, UnknownNodeError)

type Attempt = tuple[str, int]


class AgentExecutor:
    name = "agent"

    def __init__(
        self,
        directory: NodeDirectory,
        calls: NodeCalls,
        lost: LostNodes,
        local: LocalExecutor | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`local`: for runs that this console started on its own machine before the setting was changed."""
        self._directory, self._calls, self._lost, self._local = directory, calls, lost, local
        self._launcher = GangLauncher(calls)
        self._clock = clock
        self._able = capabilities_of(())
        self._first_done: dict[Attempt, float] = {}  # since when the first machine has ended well, and others run
        self._ending: dict[Attempt, asyncio.Task[None]] = {}

    async def open(self) -> None:
        if self._local is not None:
            await self._local.open()
        self._able = capabilities_of(await self._directory.list())

    async def close(self) -> None:
        for task in self._ending.values():
            task.cancel()  # the nodes go on with it
        await asyncio.gather(*self._ending.values(), return_exceptions=True)
        await self._calls.close()
        if self._local is not None:
            await self._local.close()

    # --- what there is --------------------------------------------------------------------------------------------

    def capabilities(self) -> Capabilities:
        return self._able

    async def check(self) -> list[Finding]:
        nodes = await self._directory.list()
        self._able = capabilities_of(nodes)
        if not nodes:
            hint = _("start tuneplane-node serve on each machine; docs: guides/several-machines")
            return [Finding("nodes", "warning", _("no node has joined yet"), hint)]
        slots = asyncio.Semaphore(CHECKED_AT_ONCE)

        async def of_one(name: str) -> list[Finding]:
            async with slots:
                return await self._findings(name)

        found = await asyncio.gather(*(of_one(node.name) for node in nodes))
        way = common_way(nodes)
        resting = [info for info in (node_info(node, way) for node in nodes) if not info.placeable]
        text = ngettext(
            "{count} node, {placeable} of them get work", "{count} nodes, {placeable} of them get work", len(nodes)
        )
        said = Finding("nodes", "info", text.format(count=len(nodes), placeable=len(nodes) - len(resting)))
        whys = [Finding("node-resting", "warning", f"{info.name}: {info.why}") for info in resting]
        return [said, *whys, *(finding for findings in found for finding in findings)]

    async def _findings(self, name: str) -> list[Finding]:
        try:
            found = await self._calls.ask(name, lambda client: client.check())
        except (NodeError, NodeUnreachableError) as error:
            return [Finding(error.code, "error", f"{name}: {error.text()}", error.hint(), error.detail)]
        except UnknownNodeError:
            return []  # it was removed a moment ago
        return [Finding(item.code, item.level, f"{name}: {item.text}", item.hint, item.detail) for item in found]

    async def nodes(self) -> list[NodeInfo]:
        """Every node that has joined; those that get no work for now say why."""
        nodes = await self._directory.list()
        self._able, way = capabilities_of(nodes), common_way(nodes)
        return [node_info(node, way) for node in nodes]

    async def sample(self, node: str) -> NodeFigures | None:
        try:
            seen = await self._calls.ask(node, lambda client: client.sample())
        except UnknownNodeError:
            return None
        except (NodeError, NodeUnreachableError) as error:
            raise ExecutorUnreachableError(str(error)) from error
        cards = tuple(CardFigures(card.index, card.simulated, card.figures) for card in seen.cards)
        runs = tuple(
            RunFigures(job.labels[LABEL_JOB], int(job.labels[LABEL_ATTEMPT]), job.figures) for job in seen.jobs
        )
        return NodeFigures(node, seen.time, seen.figures, cards, runs, seen.problem)

    # --- one attempt ----------------------------------------------------------------------------------------------

    async def launch(self, plan: LaunchPlan) -> Handle:
        return await self._launcher.launch(plan)

    async def observe(self, handle: Handle) -> Observation:
        if self._is_locals(handle):
            return (
                Observation("unknown", detail=ELSEWHERE) if self._local is None else await self._local.observe(handle)
            )
        if not nodes_of(handle):
            return Observation("unknown", detail="never launched")
        members = await self._members(handle)
        self._end_if_over(handle, members)
        if not any(member.alive for member in members):
            members = await asyncio.gather(*(self._with_output(member) for member in members))
        return gang.observation_of(members)

    async def stop(self, handle: Handle, grace: timedelta) -> None:
        if self._is_locals(handle):
            if self._local is None:
                raise ExecutorUnreachableError(ELSEWHERE)
            await self._local.stop(handle, grace)
            return
        members = await self._members(handle)
        await self._stop([member for member in members if member.alive], grace)
        silent = [member for member in members if member.state == "unknown"]
        if silent:
            raise ExecutorUnreachableError("; ".join(f"{member.node}: {member.detail}" for member in silent))

    async def cleanup(self, handle: Handle) -> CleanupState:
        if self._is_locals(handle):
            return CleanupState.UNKNOWN if self._local is None else await self._local.cleanup(handle)
        states = list(await asyncio.gather(*(self._clean(handle, *place) for place in enumerate(nodes_of(handle)))))
        if self._local is not None and not handle.data:
            states.append(await self._local.cleanup(handle))  # launched before the setting was changed, perhaps
        if CleanupState.PENDING in states:
            return CleanupState.PENDING
        if CleanupState.UNKNOWN in states or not states:
            return CleanupState.UNKNOWN if states or handle.data else CleanupState.CONFIRMED
        self._first_done.pop((handle.job_id, handle.attempt), None)
        return CleanupState.CONFIRMED

    async def owned(self, nodes: Sequence[str] = ()) -> list[Handle]:
        asked = list(dict.fromkeys(nodes)) or [node.name for node in await self._directory.list()]
        slots = asyncio.Semaphore(LOOKED_THROUGH_AT_ONCE)
        answers = await asyncio.gather(*(self._everything(name, slots) for name in asked), return_exceptions=True)
        found: dict[Attempt, dict[str, tuple[ContainerSeen, ...]]] = {}
        for name, answer in zip(asked, answers, strict=True):
            if isinstance(answer, BaseException):
                if nodes or not isinstance(answer, ExecutorUnreachableError):
                    raise answer
                continue
            for attempt, containers in answer.items():
                found.setdefault(attempt, {})[name] = containers
        if asked and all(isinstance(answer, BaseException) for answer in answers):
            raise ExecutorUnreachableError("no node could be asked")
        mine = [make_handle(*attempt, containers) for attempt, containers in found.items()]
        return mine if self._local is None else mine + await self._local.owned()

    async def _everything(self, name: str, slots: asyncio.Semaphore) -> dict[Attempt, tuple[ContainerSeen, ...]]:
        try:
            async with slots:
                self._calls.forget(name)
                found = dict(await self._calls.everything(name))
                await asyncio.sleep(LOOKING_RESTS_SECONDS if slots.locked() else 0)
                return found
        except UnknownNodeError:
            return {}  # named by a placement of the executor `local`
        except (NodeError, NodeUnreachableError) as error:
            raise ExecutorUnreachableError(f"{name}: {error}") from error

    # --- its machines ---------------------------------------------------------------------------------------------

    async def _members(self, handle: Handle) -> list[Member]:
        return list(await asyncio.gather(*(self._member(handle, *place) for place in enumerate(nodes_of(handle)))))

    async def _member(self, handle: Handle, rank: int, node: str) -> Member:
        key = (handle.job_id, handle.attempt)
        try:
            fenced = await self._lost.why_fenced(node, *key)
            if fenced is not None:
                return gang.lost_member(rank, node, fenced)
            found = await self._calls.containers(node, key)
            if of_rank(found, rank) is None:
                # What was kept may be of before the launch, which another console has done: to be missing needs an answer of now.
                self._calls.forget(node)
                found = await self._calls.containers(node, key)
        except (NodeError, *_AWAY) as error:
            why = await self._lost.why_lost(node, *key, rank)
            if why is not None:
                return gang.lost_member(rank, node, why)
            return Member(rank, node, "unknown", detail=await self._silence(node, error))
        return gang.member_of(rank, node, of_rank(found, rank))

    async def _silence(self, name: str, error: Exception) -> str:
        """Why nothing is known of a node, and since when it is not heard of."""
        node = await self._directory.get(name)
        if node is None or isinstance(error, NodeError) or node.heard:
            return str(error)
        return f"{error}; not heard of since {node.last_heard:%Y-%m-%d %H:%M:%S} UTC"

    async def _with_output(self, member: Member) -> Member:
        if member.state != "ended":
            return member
        where = RuntimeHandle.parse(member.where)
        try:
            printed = await self._calls.ask(member.node, lambda client: client.logs(where, OUTPUT_TAIL_BYTES))
        except (NodeError, *_AWAY):
            return member
        return gang.with_output(member, printed.decode("utf-8", "replace"))

    def _end_if_over(self, handle: Handle, members: Sequence[Member]) -> None:
        """Machines that run on although the job is over are told to stop, beside the look; a later look sees them ended."""
        key = (handle.job_id, handle.attempt)
        if gang.first_is_done(members):
            since = self._first_done.setdefault(key, self._clock())
            lingers = self._clock() - since >= LINGER_SECONDS
        else:
            self._first_done.pop(key, None)
            lingers = False
        rest = gang.to_stop(members, lingers=lingers)
        if not rest or key in self._ending:
            return
        log.info("a machine of a run has ended, so the others are stopped", job=key[0], attempt=key[1])
        task = asyncio.create_task(self._stop(rest, grace_of(handle)), name=f"stop {key[0]}")
        self._ending[key] = task
        task.add_done_callback(lambda done: self._ended(key, done))

    def _ended(self, key: Attempt, task: asyncio.Task[None]) -> None:
        del self._ending[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("the rest of a run could not be stopped yet", job=key[0], attempt=key[1], why=str(error))

    async def _stop(self, members: Sequence[Member], grace: timedelta) -> None:
        """Raises `ExecutorUnreachableError` when one could not be told; the others have ended then."""

        async def of_one(member: Member) -> None:
            where = RuntimeHandle.parse(member.where)
            seconds = grace.total_seconds()
            await self._calls.tell(member.node, lambda client: client.stop(where, seconds))

        failures = await asyncio.gather(*(of_one(member) for member in members), return_exceptions=True)
        for member, failure in zip(members, failures, strict=True):
            if isinstance(failure, NodeError | NodeUnreachableError | UnknownNodeError):
                raise ExecutorUnreachableError(f"{member.node}: {failure}") from failure
            if failure is not None:
                raise failure

    async def _clean(self, handle: Handle, rank: int, node: str) -> CleanupState:
        job, attempt = handle.job_id, handle.attempt

        async def clean(client: NodeClient) -> bool:
            return await client.cleanup_attempt(job, attempt)

        fenced = await self._lost.why_fenced(node, job, attempt) is not None
        try:
            # Also when it was given up: where it can be called, as after a removal by force, it would run on beside the next attempt.
            gone = await self._calls.tell(node, clean)
        except (NodeError, *_AWAY) as error:
            if fenced:
                return CleanupState.CONFIRMED  # on paper: the node gets no work before it has done it
            return await self._not_cleaned(handle, rank, node, error)
        return CleanupState.CONFIRMED if gone else CleanupState.PENDING

    async def _not_cleaned(
        self, handle: Handle, rank: int, node: str, error: NodeError | NodeUnreachableError | UnknownNodeError
    ) -> CleanupState:
        if isinstance(error, NodeError):
            return CleanupState.UNKNOWN
        if isinstance(error, NodeUnreachableError):
            lost = await self._lost.why_lost(node, handle.job_id, handle.attempt, rank)
            return CleanupState.UNKNOWN if lost is None else CleanupState.CONFIRMED
        # A placement of the executor `local` names this machine; what runs there is looked for by that one.
        return CleanupState.CONFIRMED if self._local is not None and not handle.data else CleanupState.UNKNOWN

    def _is_locals(self, handle: Handle) -> bool:
        """Whether the executor `local` began it."""
        return bool(handle.data) and not is_agents(handle)
