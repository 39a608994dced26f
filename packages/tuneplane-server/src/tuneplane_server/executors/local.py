"""The executor `local`: the node engine embedded in the console. One machine, one console."""

from __future__ import annotations

import socket
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from tuneplane.contract import words
from tuneplane_node.engine import (
    LABEL_ATTEMPT,
    LABEL_JOB,
    Engine,
    Inventory,
    LaunchRequest,
    Mount,
    NodeError,
    Observed,
    RuntimeHandle,
)
from tuneplane_server.domain.classify import Exit
from tuneplane_server.domain.own_queue import is_counted
from tuneplane_server.domain.reasons import REASONS
from tuneplane_server.executors.port import (
    Capabilities,
    CardFigures,
    CleanupState,
    ExecutorUnreachableError,
    Finding,
    GpuInfo,
    Handle,
    LaunchDelayedError,
    LaunchPlan,
    LaunchRefusedError,
    MachinePlan,
    NodeFigures,
    NodeInfo,
    Observation,
    RunFigures,
    launch_name,
)
from tuneplane_server.settings import Settings

GIB = 1024**3
PORTS = range(20_000, 30_000)  # below the usual ephemeral range
OUTPUT_TAIL_BYTES = 16 * 1024
UNREACHABLE = "engine-unreachable"
PROCESS = "process"  # the one runtime that isolates nothing
ELSEWHERE = (
    "it runs on the machine of another console, or was begun by another executor than TUNEPLANE_EXECUTOR says now: "
    "set that back until such runs have ended"
)


class LocalExecutor:
    name = "local"

    def __init__(self, settings: Settings, instance: str, engine_factory: Callable[..., Engine] = Engine) -> None:
        socket_address = settings.container_socket or ""
        self._engine = engine_factory(
            instance,
            settings.state_dir / "engine",
            runtime=settings.runtime,
            docker_host=socket_address,
            podman_host=socket_address,
            extra_mounts=settings.container_mounts or "",
            container_user=settings.container_user or "",
            simulated_gpus=settings.simulated_gpus or "",
            pull_seconds=float(settings.image_pull_timeout),
        )
        self._instance = instance
        self._gpu_profile = settings.gpu_profile
        self._runtime = settings.runtime if settings.runtime != "auto" else PROCESS

    async def open(self) -> None:
        await self._look()

    async def close(self) -> None:
        await self._engine.close()

    def capabilities(self) -> Capabilities:
        process = self._runtime == PROCESS
        return Capabilities(
            runtime=self._runtime,
            image_form="environment" if process else "oci",
            on_this_machine=True,  # containers share the machine's network, so its loopback is theirs
            isolates=not process,
            one_console=True,
        )

    async def check(self) -> list[Finding]:
        await self._look()
        return [
            Finding(item.code, item.level, item.text, item.hint, item.detail) for item in await self._engine.check()
        ]

    async def nodes(self) -> list[NodeInfo]:
        try:
            inventory = await self._engine.inventory()
        except (NodeError, OSError) as error:
            raise ExecutorUnreachableError(str(error)) from error
        return [self._node(inventory)]

    async def sample(self, node: str) -> NodeFigures | None:
        try:
            seen = await self._engine.sample()
        except (NodeError, OSError) as error:
            raise ExecutorUnreachableError(str(error)) from error
        if seen.hostname != node:
            return None
        cards = tuple(CardFigures(card.index, card.simulated, card.figures) for card in seen.cards)
        runs = tuple(
            RunFigures(job.labels[LABEL_JOB], int(job.labels[LABEL_ATTEMPT]), job.figures) for job in seen.jobs
        )
        return NodeFigures(node, seen.time, seen.figures, cards, runs, seen.problem)

    async def launch(self, plan: LaunchPlan) -> Handle:
        if _are_counted(machine.node for machine in plan.machines):
            # Another executor perhaps launched it, and nobody holds cards of this machine for it.
            raise ExecutorUnreachableError(ELSEWHERE)
        (machine,) = plan.machines
        try:
            handle = await self._engine.launch(_request(plan, machine))
        except NodeError as error:
            raise _launch_error(error) from error
        return self._handle(plan.job_id, plan.attempt, handle)

    async def observe(self, handle: Handle) -> Observation:
        if self._is_foreign(handle):
            return Observation("unknown", detail=ELSEWHERE)
        where = _where(handle)
        if where is None:
            return Observation("unknown", detail="never launched")
        observed = await self._engine.observe(where)
        output = await self._output(where) if observed.state == "exited" else ""
        return _observation(observed, output)

    async def stop(self, handle: Handle, grace: timedelta) -> None:
        if self._is_foreign(handle):
            raise ExecutorUnreachableError(ELSEWHERE)
        where = _where(handle)
        if where is None:
            return
        try:
            await self._engine.stop(where, grace.total_seconds())
        except NodeError as error:
            raise ExecutorUnreachableError(str(error)) from error

    async def cleanup(self, handle: Handle) -> CleanupState:
        if self._is_foreign(handle):
            return CleanupState.UNKNOWN
        where = _where(handle)
        try:
            mine = [where] if where is not None else await self._launched(handle)
            gone = [await self._engine.cleanup(item) for item in mine]
        except NodeError:
            return CleanupState.UNKNOWN
        return CleanupState.CONFIRMED if all(gone) else CleanupState.PENDING

    async def owned(self, nodes: Sequence[str] = ()) -> list[Handle]:
        try:
            found = await self._engine.owned()
        except NodeError as error:
            raise ExecutorUnreachableError(str(error)) from error
        return [self._handle(item.labels[LABEL_JOB], int(item.labels[LABEL_ATTEMPT]), item.handle) for item in found]

    def _handle(self, job_id: str, attempt: int, where: RuntimeHandle) -> Handle:
        data = {"machines": [str(where)], "instance": self._instance}
        return Handle(job_id, attempt, data, where.runtime, where.runtime != PROCESS)

    def _is_foreign(self, handle: Handle) -> bool:
        """Consoles that share a database by mistake must not take each other's runs for gone, nor one whose TUNEPLANE_EXECUTOR was
        changed those of before."""
        machines = handle.data.get("machines", ())
        others = bool(handle.data) and not (machines and isinstance(machines[0], str))
        return others or _are_counted(handle.nodes) or handle.data.get("instance", self._instance) != self._instance

    async def _launched(self, handle: Handle) -> list[RuntimeHandle]:
        """What a launch, of which nobody saw the end, may have made: found by its labels in every runtime ever used."""
        return [
            item.handle
            for item in await self._engine.owned()
            if item.labels.get(LABEL_JOB) == handle.job_id and item.labels.get(LABEL_ATTEMPT) == str(handle.attempt)
        ]

    async def _look(self) -> None:
        try:
            self._runtime = await self._engine.runtime_name()
        except NodeError:
            return  # `check` says what is wrong; the last known runtime stays

    async def _output(self, where: RuntimeHandle) -> str:
        try:
            return (await self._engine.logs(where, OUTPUT_TAIL_BYTES)).decode("utf-8", "replace")
        except NodeError:
            return ""

    def _node(self, inventory: Inventory) -> NodeInfo:
        return NodeInfo(
            name=inventory.hostname,
            cpus=float(inventory.cpus),
            memory_gb=round(inventory.memory_bytes / GIB, 1),
            gpus=tuple(
                GpuInfo(
                    index=gpu.index,
                    profile=gpu.series if gpu.simulated or self._gpu_profile is None else self._gpu_profile,
                    product=gpu.name,
                    memory_gb=None if gpu.memory_bytes is None else round(gpu.memory_bytes / GIB, 1),
                    simulated=gpu.simulated,
                )
                for gpu in inventory.gpus
            ),
            facts={
                "architecture": inventory.architecture,
                "kernel": inventory.kernel,
                "cpu_model": inventory.cpu_model,
                "disk_gb": round(inventory.disk_bytes / GIB, 1),
                "disk_free_gb": round(inventory.disk_free_bytes / GIB, 1),
            },
        )


def _request(plan: LaunchPlan, machine: MachinePlan) -> LaunchRequest:
    mounts = [Mount(str(path), str(path), read_only=True) for path in plan.read_only]
    mounts += [Mount(str(path), str(path)) for path in plan.writable]
    return LaunchRequest(
        name=launch_name(plan.job_id, plan.attempt, machine.rank),
        labels={LABEL_JOB: plan.job_id, LABEL_ATTEMPT: str(plan.attempt)},
        command=["sh", str(plan.capsule / words.BOOTSTRAP_FILE)],
        image=plan.image,
        env={**plan.env, **_machine_env(plan, machine)},
        mounts=mounts,
        gpus=machine.gpus,
        cpus=machine.cpus,
        memory_bytes=machine.memory_bytes,
    )


def _machine_env(plan: LaunchPlan, machine: MachinePlan) -> Mapping[str, str]:
    return {
        words.ENV_MACHINE_RANK: str(machine.rank),
        words.ENV_MACHINE_COUNT: str(len(plan.machines)),
        words.ENV_MAIN_IP: "127.0.0.1",
        words.ENV_MAIN_PORT: str(free_port(f"{plan.job_id}/{plan.attempt}")),
    }


def free_port(seed: str) -> int:
    """A port nobody listens on, found from a place that depends on the run, so that two runs hardly look at the same one."""
    start = zlib.crc32(seed.encode()) % len(PORTS)
    for offset in range(len(PORTS)):
        port = PORTS[(start + offset) % len(PORTS)]
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise LaunchDelayedError("launch-failed", {"detail": "every port from 20000 to 29999 is taken on this machine"})


def _are_counted(nodes: Iterable[str]) -> bool:
    """Whether an executor with a queue of its own was given them."""
    return any(map(is_counted, nodes))


def _where(handle: Handle) -> RuntimeHandle | None:
    machines: list[str] = handle.data.get("machines", [])
    return RuntimeHandle.parse(machines[0]) if machines else None


def _observation(observed: Observed, output: str) -> Observation:
    if observed.state == "unknown":
        return Observation("unknown", detail=observed.detail)
    if observed.state == "absent":
        return Observation("absent", exit=Exit(absent=True), detail=observed.detail)
    ended = observed.state == "exited"
    exit_ = Exit(False, observed.exit_code, observed.signal, bool(observed.oom_killed)) if ended else None
    return Observation(
        "present",
        running=not ended,
        started=observed.state != "created",
        exit=exit_,
        started_at=observed.started_at,
        detail=observed.detail,
        output=output,
    )


def _launch_error(error: NodeError) -> Exception:
    if error.code == UNREACHABLE:
        return ExecutorUnreachableError(str(error))
    reason = error.code if error.code in REASONS else "launch-failed"
    # Values of the engine's own sentence (image, path, …) fill the reason's text too.
    data: dict[str, Any] = {key: str(value)[:500] for key, value in error.values.items()}
    said = error.problem.text.format(**error.values)
    data["detail"] = f"{said} {error.detail}".strip()[:2000]
    return (LaunchDelayedError if error.retry else LaunchRefusedError)(reason, data)
