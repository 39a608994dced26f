"""The engine: one machine's runtimes and inventory behind one set of calls.

The console embeds it (executor `local`); the node daemon puts HTTP before it. Everything may be repeated at any time.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tuneplane_node.engine.held_cards import HeldCards
from tuneplane_node.engine.inventory import Gpu, Inventory, parse_simulated, take_inventory
from tuneplane_node.engine.problems import Finding, NodeError
from tuneplane_node.engine.requests import (
    LABEL_INSTANCE,
    LaunchRequest,
    Mount,
    Observed,
    OwnedContainer,
    RuntimeHandle,
    parse_mounts,
)
from tuneplane_node.engine.runtimes.base import Runtime
from tuneplane_node.engine.sampling.cards import NvidiaSmi
from tuneplane_node.engine.sampling.jobs import JobPlace
from tuneplane_node.engine.sampling.sampler import Sampler
from tuneplane_node.engine.sampling.samples import MachineSample
from tuneplane_node.engine.selection import RuntimeChoice, RuntimeOptions, Selection
from tuneplane_node.engine.strangers import VISIBLE_SIMULATED_GPUS, Stranger

PULL_SECONDS = 1800.0
_ABANDONED_SECONDS = 7 * 86_400.0
PROCESS = "process"


class Engine:
    """One machine's jobs, for one console.

    `instance_id` names the console (or daemon) whose containers these are, so that two on one machine stay apart.
    `state_root`: a directory on a local disk, kept between starts. `extra_mounts`: `/a:/b:ro,/data:/data` or Mounts,
    added to every container. `container_user`: `image`, `<uid>:<gid>`, or empty to choose (see DockerRuntime).
    `simulated_gpus`: `h200:8,h100:4` in place of the real cards. `pull_seconds` bounds one image pull.
    A setting that makes no sense raises NodeError `setting-invalid` or `engine-address`.
    """

    def __init__(
        self,
        instance_id: str,
        state_root: Path,
        *,
        runtime: RuntimeChoice = "auto",
        docker_host: str = "",
        podman_host: str = "",
        extra_mounts: str | Sequence[Mount] = (),
        container_user: str = "",
        simulated_gpus: str = "",
        pull_seconds: float = PULL_SECONDS,
        docker_config: Path | None = None,
        host_env: Mapping[str, str] | None = None,
    ) -> None:
        self._instance = instance_id
        self._state_root = state_root
        self._extra_mounts = parse_mounts(extra_mounts) if isinstance(extra_mounts, str) else tuple(extra_mounts)
        self._simulated = parse_simulated(simulated_gpus)
        options = RuntimeOptions(runtime, docker_host, podman_host, container_user, docker_config, pull_seconds)
        self._selection = Selection(instance_id, state_root, options, os.environ if host_env is None else host_env)
        smi = NvidiaSmi()
        self._sampler = Sampler(state_root, self._simulated, cards=smi)
        self._cards_held = HeldCards(state_root / "cards", smi)
        self._still_held: dict[str, NodeError] = {}  # what the last cleanups were refused for

    @property
    def simulated_gpus(self) -> tuple[Gpu, ...]:
        """The invented cards, empty when real ones count."""
        return self._simulated

    async def runtime_name(self) -> str:
        """The runtime that the next launch will use: docker, podman or process."""
        return (await self._selection.current()).name

    async def check(self) -> list[Finding]:
        """What stands in the way of jobs on this machine, and what to know."""
        try:
            runtime = await self._selection.current()
        except NodeError as problem:
            return [problem.finding()]
        findings = await runtime.check()
        inventory = await self.inventory()
        findings += inventory.findings
        if any(not gpu.simulated for gpu in inventory.gpus) and not await self._gives_gpus(runtime):
            findings.append(NodeError("gpu-unsupported", runtime=runtime.name).finding())
        return [*findings, *(problem.finding() for problem in self._still_held.values())]

    async def inventory(self) -> Inventory:
        return await take_inventory(self._state_root, self._simulated)

    async def launch(self, request: LaunchRequest) -> RuntimeHandle:
        """Create-or-get by name. May take as long as pulling the image may (`pull_seconds`).

        Raises NodeError; nothing runs then, unless its code is `engine-unreachable`: ask again with the same request.
        """
        runtime = await self._selection.for_launch()
        complete = self._complete(request)
        if complete.gpus:
            await self._cards_held.note(RuntimeHandle(runtime.name, complete.name), complete.labels, complete.gpus)
        return await runtime.launch(complete)

    async def observe(self, handle: RuntimeHandle) -> Observed:
        """Never raises for a runtime that cannot be asked: that is `unknown`."""
        return await self._selection.named(handle.runtime).observe(handle.name)

    async def stop(self, handle: RuntimeHandle, grace_seconds: float) -> None:
        """SIGTERM, the grace, SIGKILL to all of it; returns when it has ended, at the latest 15 s after the grace."""
        await self._selection.named(handle.runtime).stop(handle.name, grace_seconds)

    async def kill(self, handle: RuntimeHandle) -> None:
        await self._selection.named(handle.runtime).kill(handle.name)

    async def cleanup(self, handle: RuntimeHandle) -> bool:
        """End it if it runs, remove its container or record. True only when it is proved to be gone and nothing of it holds its
        cards any more."""
        with suppress(NodeError):  # a full disk must not keep a container, which may be what fills it
            await self._cards_held.begin_end(handle.name)
        if not await self._selection.named(handle.runtime).remove(handle.name):
            return False
        try:
            await self._cards_held.release(handle.name)
        except NodeError as problem:
            self._still_held[handle.name] = problem
            return False
        self._still_held.pop(handle.name, None)
        return True

    async def owned(self) -> list[OwnedContainer]:
        """Everything of this instance in every runtime that it ever used here, and what is gone but for its cards. Raises when one
        cannot be asked."""
        found = [container for runtime in await self._selection.used() for container in await runtime.owned()]
        there = {container.handle for container in found}
        return [*found, *(gone for gone in await self._cards_held.held() if gone.handle not in there)]

    async def strangers(self) -> list[Stranger]:
        """Jobs on this machine that carry our labels and are of another instance: its own of before its state was lost, or another
        installation's. Raises NodeError when a runtime cannot be asked."""
        runtimes = {runtime.name: runtime for runtime in await self._selection.used()}
        runtimes.setdefault(PROCESS, self._selection.named(PROCESS))
        return [stranger for runtime in runtimes.values() for stranger in await runtime.strangers()]

    async def end_strangers(self, job: str, attempt: str, instance: str) -> bool:
        """End what that instance had of an attempt. True: nothing of it is left, proved. Raises NodeError."""
        mine = [
            each
            for each in await self.strangers()
            if (each.job, each.attempt, each.instance) == (job, attempt, instance)
        ]
        gone = [await self._selection.named(each.handle.runtime).end_stranger(each) for each in mine]
        return all(gone)

    async def sample(self) -> MachineSample:
        """What the machine, its cards and our jobs use now; rates are since the last call. Jobs of a runtime that cannot be asked are
        left out, and `problem` says so. Raises NodeError when it cannot be told which runtimes there are."""
        places: list[JobPlace] = []
        problems: list[str] = []
        for runtime in await self._selection.used():
            try:
                places += await runtime.places()
            except NodeError as error:
                problems.append(error.text())
        return await self._sampler.sample(places, problems)

    async def prune_images(self, limit_bytes: int, pinned: Collection[str] = ()) -> list[str]:
        """Remove images that were pulled for jobs until they take no more than that in each engine, least recently used first,
        never one that is pinned or that a container has; their names. Raises NodeError when an engine cannot be asked."""
        return [
            name for runtime in await self._selection.used() for name in await runtime.prune_images(limit_bytes, pinned)
        ]

    async def forget_notes(self) -> int:
        """Remove what is kept about containers that are gone for good; how much of it. Raises NodeError."""
        gone = sum([await runtime.forget_notes() for runtime in await self._selection.used()])
        names = {container.name for container in await self.owned()}
        return gone + await self._cards_held.keep_only(names, _ABANDONED_SECONDS)

    async def logs(self, handle: RuntimeHandle, tail_bytes: int = 64 * 1024) -> bytes:
        """The end of what bootstrap and runner printed themselves."""
        return await self._selection.named(handle.runtime).logs(handle.name, tail_bytes)

    async def close(self) -> None:
        """Let go of connections; containers run on."""
        await self._selection.close()

    def _complete(self, request: LaunchRequest) -> LaunchRequest:
        """Add what every container of this machine gets: our label, the extra mounts, the cards."""
        environment, gpus = self._cards(request)
        targets = {mount.target for mount in request.mounts}
        extra = [mount for mount in self._extra_mounts if mount.target not in targets]
        return replace(
            request,
            labels={**request.labels, LABEL_INSTANCE: self._instance},
            mounts=[*request.mounts, *extra],
            env={**request.env, **environment},
            gpus=gpus,
        )

    def _cards(self, request: LaunchRequest) -> tuple[dict[str, str], tuple[int, ...]]:
        """The environment and the real cards. Invented ones never reach a runtime; a job without cards sees none."""
        unseen = {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
        chosen = ",".join(map(str, request.gpus))
        if not self._simulated:
            # Said again here, because an image or a user who says "all" is believed by some container runtimes.
            return ({"NVIDIA_VISIBLE_DEVICES": chosen}, request.gpus) if request.gpus else (unseen, ())
        for index in request.gpus:
            if index >= len(self._simulated):
                raise NodeError("gpu-unknown", index=index)
        return {**unseen, VISIBLE_SIMULATED_GPUS: chosen}, ()

    async def _gives_gpus(self, runtime: Runtime) -> bool:
        try:
            return await runtime.gives_gpus()
        except NodeError:
            return True  # whether it answers at all is another finding
