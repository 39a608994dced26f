"""Starting a job on its nodes: look at every one of them first, then start all at once.

Everything may be done again at any time. What a launch that was cut off has left is found by its labels, which say where the first
machine listens; a runner starts once in an attempt, so what has begun is not ended for another try, but joined.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from tuneplane.contract import words
from tuneplane_node.client import NodeClient, NodeError, NodeUnreachableError, Ticket
from tuneplane_node.engine import LABEL_ATTEMPT, LABEL_JOB, LaunchRequest, Mount, RuntimeHandle
from tuneplane_node.wire import ContainerSeen, MainPlace, PreflightReport, PreflightRequest
from tuneplane_server.domain.nodes import NodeState
from tuneplane_server.domain.reasons import REASONS
from tuneplane_server.executors.agent.calls import NodeCalls, UnknownNodeError
from tuneplane_server.executors.agent.handles import LABEL_GRACE, LABEL_MAIN, LABEL_NODES, make_handle, of_rank
from tuneplane_server.executors.port import (
    ExecutorUnreachableError,
    Handle,
    LaunchDelayedError,
    LaunchPlan,
    LaunchRefusedError,
    MachinePlan,
    launch_name,
)

log = structlog.get_logger(__name__)

UNREACHABLE = "node-unreachable"
DETAIL = 2000  # characters of what nodes say
LOOPBACK, MAIN_UNREACHABLE = "127.0.0.1", "main-unreachable"
MIN_FREE_BYTES = 1024**3  # of the storage root; a run that cannot write its first lines is not begun
ENV_NIC = "TUNEPLANE_NIC"
# What NCCL and Gloo would else find out by the host's name, which on many machines is an address of itself.
_SOCKETS = {"NCCL_SOCKET_IFNAME": "={}", "GLOO_SOCKET_IFNAME": "{}"}


@dataclass(frozen=True)
class Meeting:
    """Where the machines of a job meet: an address of the first one that every other one reaches, and a port that is its own there.

    `interfaces`: machine rank -> its interface towards that; empty when a launch is gone on with that another one began.
    """

    address: str
    port: int
    interfaces: Mapping[int, str]

    def __str__(self) -> str:
        return f"{_bracketed(self.address)}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Meeting | None:
        address, _colon, port = text.rpartition(":")
        return cls(address.strip("[]"), int(port), {}) if address and port.isdecimal() else None


class GangLauncher:
    def __init__(self, calls: NodeCalls) -> None:
        self._calls = calls

    async def launch(self, plan: LaunchPlan) -> Handle:
        """As the port's. What was begun stays when nobody knows or a later try may succeed; a refusal leaves nothing."""
        try:
            return await self._launch(plan)
        except UnknownNodeError as error:
            raise LaunchDelayedError(UNREACHABLE, {"detail": f"no node {error} has joined"}) from error
        except NodeUnreachableError as error:
            raise ExecutorUnreachableError(str(error), UNREACHABLE) from error
        except NodeError as error:  # a runtime there cannot be asked
            raise ExecutorUnreachableError(str(error)) from error

    async def _launch(self, plan: LaunchPlan) -> Handle:
        key = (plan.job_id, plan.attempt)
        names = [machine.node for machine in plan.machines]
        # Before anything else: if this console is held up, and another one ends the attempt meanwhile, this launch is too late.
        taken = await _all(self._calls.ask(name, lambda client: client.ticket()) for name in names)
        tickets = dict(zip(names, taken, strict=True))
        for name in names:
            self._calls.forget(name)  # as of now: another console may have begun it a moment ago
        found = dict(zip(names, await _all(self._calls.containers(name, key) for name in names), strict=True))
        missing = [machine for machine in plan.machines if not _has_begun(found[machine.node], machine.rank)]
        if missing:
            await self._refuse_given_up(missing)
            begun = _meeting_of(found)
            meeting = await (self._meet(plan) if begun is None else self._join(plan, missing, begun))
            found |= await self._start(plan, missing, meeting, tickets)
        return make_handle(plan.job_id, plan.attempt, found, tuple(names))

    async def _refuse_given_up(self, missing: Iterable[MachinePlan]) -> None:
        """A node that was removed, or still has what was given up on it, since this was placed there."""
        for machine in missing:
            node = await self._calls.node(machine.node)
            if node.state is NodeState.REMOVED or node.fences:
                why = "was removed" if node.state is NodeState.REMOVED else "has yet to end what was given up there"
                raise LaunchDelayedError(UNREACHABLE, {"node": node.name, "detail": f"{node.name} {why}"})

    # --- before ---------------------------------------------------------------------------------------------------

    async def _meet(self, plan: LaunchPlan) -> Meeting:
        """Look at every machine, and find where they meet. Raises what stands in the way."""
        first = plan.machines[0]
        port = await self._ask(first, lambda client: client.reserve_port(plan.job_id, plan.attempt))
        reports = await self._look(plan, [first], None)
        if len(plan.machines) > 1:
            return await self._meet_at(plan, reports[0], port)
        _refuse_problems(plan, reports)
        return Meeting(LOOPBACK, port, {})

    async def _meet_at(self, plan: LaunchPlan, first: PreflightReport, port: int) -> Meeting:
        job, attempt = plan.job_id, plan.attempt
        main, others, addresses = plan.machines[0], plan.machines[1:], tuple(item.address for item in first.ips)
        await self._ask(main, lambda client: client.open_port(job, attempt))
        try:
            reports = await self._look(plan, others, MainPlace(addresses, port))
            _refuse_problems(plan, {0: first} | reports)
            address = _common(reports)
            for candidate in addresses:  # each machine reaches one, and not all the same: is there one for all?
                if address is not None:
                    break
                reports = await self._look(plan, others, MainPlace((candidate,), port))
                address = _common(reports)
        finally:
            await self._ask(main, lambda client: client.close_port(job, attempt))
        if address is None:
            detail = f"no address of {main.node} is reached by all the others; tried: {', '.join(addresses)}"
            raise LaunchDelayedError(MAIN_UNREACHABLE, {"node": main.node, "detail": detail})
        return Meeting(address, port, {0: _own(first, address)} | _interfaces(reports))

    async def _join(self, plan: LaunchPlan, missing: Sequence[MachinePlan], begun: Meeting) -> Meeting:
        """Some run already: the trainer has the port now, or nobody yet, so that it need not answer."""
        if len(plan.machines) == 1:
            return begun
        reports = await self._look(plan, missing, MainPlace((begun.address,), begun.port))
        _refuse_problems(plan, reports, unreached=False)
        interfaces = _interfaces(reports)
        if 0 in reports:
            interfaces[0] = _own(reports[0], begun.address)
        return Meeting(begun.address, begun.port, interfaces)

    async def _look(
        self, plan: LaunchPlan, machines: Sequence[MachinePlan], main: MainPlace | None
    ) -> dict[int, PreflightReport]:
        """What those machines say before the launch, by rank."""

        async def at_one(machine: MachinePlan) -> PreflightReport:
            request = _preflight(plan, machine, main)
            return await self._ask(machine, lambda client: client.preflight(request))

        reports = await _all(at_one(machine) for machine in machines)
        return {machine.rank: report for machine, report in zip(machines, reports, strict=True)}

    async def _ask[T](self, machine: MachinePlan, question: Callable[[NodeClient], Awaitable[T]]) -> T:
        """Raises the node's refusal as the launch's."""
        try:
            return await self._calls.ask(machine.node, question)
        except NodeError as error:
            raise launch_error(error, machine) from error

    # --- starting -------------------------------------------------------------------------------------------------

    async def _start(
        self, plan: LaunchPlan, missing: list[MachinePlan], meeting: Meeting, tickets: Mapping[str, Ticket]
    ) -> dict[str, tuple[ContainerSeen, ...]]:
        """Start those at once; what they have then, by node."""
        tasks = {
            asyncio.create_task(self._start_one(plan, machine, meeting, tickets[machine.node]), name=machine.node)
            for machine in missing
        }
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            refusal = next((error for task in tasks if (error := _refusal(task)) is not None), None)
            if refusal is None:
                await asyncio.wait(tasks)  # of the others each may begin: it is joined at the next try
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        refusal = refusal or next((error for task in tasks if (error := _refusal(task)) is not None), None)
        if refusal is not None:
            await self._undo(plan)
            raise refusal
        for task in tasks:
            task.result()
        names = {machine.node for machine in plan.machines}
        key = (plan.job_id, plan.attempt)
        found = await _all(self._calls.containers(name, key) for name in names)
        return dict(zip(names, found, strict=True))

    async def _start_one(
        self, plan: LaunchPlan, machine: MachinePlan, meeting: Meeting, ticket: Ticket
    ) -> RuntimeHandle:
        request = _request(plan, machine, meeting)
        digests = {str(plan.capsule / name): digest for name, digest in plan.files.items()}

        async def start(client: NodeClient) -> RuntimeHandle:
            return await client.launch(request, digests, ticket)

        try:
            return await self._calls.tell(machine.node, start)
        except NodeError as error:
            raise launch_error(error, machine) from error

    async def _undo(self, plan: LaunchPlan) -> None:
        """What cannot be undone now, the ledger has cleaned up: the attempt is over for it as well."""

        async def of_one(node: str) -> None:
            try:
                await self._calls.tell(node, lambda client: client.cleanup_attempt(plan.job_id, plan.attempt))
            except (NodeError, NodeUnreachableError, UnknownNodeError) as error:
                log.warning("what a refused launch began is still there", node=node, job=plan.job_id, why=str(error))

        await asyncio.gather(*(of_one(machine.node) for machine in plan.machines))


async def _all[T](calls: Iterable[Awaitable[T]]) -> list[T]:
    """All at once; when one fails the others are let go of, and the first failure is raised."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def launch_error(error: NodeError, machine: MachinePlan) -> LaunchRefusedError | LaunchDelayedError:
    """A node's refusal as a reason of the table; values of its sentence (image, path, …) fill the reason's text too."""
    reason = error.code if error.code in REASONS else "launch-failed"
    data = {key: str(value)[:500] for key, value in error.values.items()}
    said = f"{machine.node}: {error.problem.text.format(**error.values)} {error.detail}".strip()
    data |= {"node": machine.node, "detail": said[:DETAIL]}
    return (LaunchDelayedError if error.retry else LaunchRefusedError)(reason, data)


def _refusal(task: asyncio.Task[RuntimeHandle]) -> LaunchRefusedError | None:
    if not task.done() or task.cancelled():
        return None
    error = task.exception()
    return error if isinstance(error, LaunchRefusedError) else None


def _refuse_problems(plan: LaunchPlan, reports: Mapping[int, PreflightReport], *, unreached: bool = True) -> None:
    """Raises the first thing that must be mended by somebody; else the first that may pass. All are told in its detail.
    `unreached`: not to reach the first machine is one of them.
    """
    errors = [
        launch_error(problem.error(), plan.machines[rank])
        for rank, report in sorted(reports.items())
        for problem in report.problems
        if problem.level == "error" and (unreached or problem.code != MAIN_UNREACHABLE)
    ]
    if not errors:
        return
    errors.sort(key=lambda error: isinstance(error, LaunchDelayedError))
    errors[0].data["detail"] = "\n".join(str(error.data["detail"]) for error in errors)[:DETAIL]
    raise errors[0]


def _common(reports: Mapping[int, PreflightReport]) -> str | None:
    """The address that all have reached."""
    reached = {report.reached for report in reports.values()}
    return reached.pop() if len(reached) == 1 else None


def _own(report: PreflightReport, address: str) -> str:
    """The interface of a machine that has this address of its own."""
    return next((item.interface for item in report.ips if item.address == address), "")


def _interfaces(reports: Mapping[int, PreflightReport]) -> dict[int, str]:
    return {rank: report.interface for rank, report in reports.items()}


def _has_begun(containers: Iterable[ContainerSeen], rank: int) -> bool:
    """One that was only created is launched again with the same request."""
    found = of_rank(containers, rank)
    return found is not None and found.observed.state != "created"


def _meeting_of(found: Mapping[str, Iterable[ContainerSeen]]) -> Meeting | None:
    """Where those meet that an earlier launch has begun."""
    labels = (item.labels.get(LABEL_MAIN, "") for items in found.values() for item in items)
    return next((meeting for text in labels if (meeting := Meeting.parse(text)) is not None), None)


def _preflight(plan: LaunchPlan, machine: MachinePlan, main: MainPlace | None) -> PreflightRequest:
    return PreflightRequest(
        job=plan.job_id,
        attempt=plan.attempt,
        capsule_dir=str(plan.capsule),
        capsule_sha256=plan.capsule_digest,
        files=dict(plan.files),
        ingest_url=plan.env.get(words.ENV_INGEST_URL, ""),
        gpus=machine.gpus,
        console_time=time.time(),
        min_free_bytes=MIN_FREE_BYTES,
        main=main,
    )


def _request(plan: LaunchPlan, machine: MachinePlan, meeting: Meeting) -> LaunchRequest:
    mounts = [Mount(str(path), str(path), read_only=True) for path in plan.read_only]
    mounts += [Mount(str(path), str(path)) for path in plan.writable]
    return LaunchRequest(
        name=launch_name(plan.job_id, plan.attempt, machine.rank),
        labels={
            LABEL_JOB: plan.job_id,
            LABEL_ATTEMPT: str(plan.attempt),
            LABEL_MAIN: str(meeting),
            LABEL_NODES: ",".join(item.node for item in plan.machines),
            LABEL_GRACE: f"{plan.grace.total_seconds():g}",
        },
        command=["sh", str(plan.capsule / words.BOOTSTRAP_FILE)],
        image=plan.image,
        env={**plan.env, **_machine_env(plan, machine, meeting)},
        mounts=mounts,
        gpus=machine.gpus,
        cpus=machine.cpus,
        memory_bytes=machine.memory_bytes,
    )


def _machine_env(plan: LaunchPlan, machine: MachinePlan, meeting: Meeting) -> dict[str, str]:
    interface = meeting.interfaces.get(machine.rank, "")
    sockets = {name: form.format(interface) for name, form in _SOCKETS.items()} | {ENV_NIC: interface}
    return {
        words.ENV_MACHINE_RANK: str(machine.rank),
        words.ENV_MACHINE_COUNT: str(len(plan.machines)),
        words.ENV_MAIN_IP: meeting.address,
        words.ENV_MAIN_PORT: str(meeting.port),
        **(sockets if interface else {}),
    }


def _bracketed(address: str) -> str:
    try:
        return f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
    except ValueError:
        return address
