"""Docker and Podman over their API socket. One class: which of the two answers is asked, not configured.

A container found under our name with another console's label is not ours: never adopted, never touched.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from tuneplane.i18n import _
from tuneplane_node.engine.problems import Finding, NodeError, finding
from tuneplane_node.engine.requests import (
    LABEL_INSTANCE,
    LaunchRequest,
    Observed,
    OwnedContainer,
    RuntimeHandle,
    same_identity,
)
from tuneplane_node.engine.runtimes import container_state as states
from tuneplane_node.engine.runtimes.base import KILL_SECONDS, to_its_end
from tuneplane_node.engine.runtimes.cdi import nvidia_devices
from tuneplane_node.engine.runtimes.container_spec import docker_body, podman_body
from tuneplane_node.engine.runtimes.docker_strangers import end_stranger, find_strangers
from tuneplane_node.engine.runtimes.engine_api import ApiError, EngineApi, EngineFacts
from tuneplane_node.engine.runtimes.image_uses import ImageUses
from tuneplane_node.engine.runtimes.images import Images
from tuneplane_node.engine.runtimes.registry_login import RegistryLogins
from tuneplane_node.engine.runtimes.unseen import Unseen
from tuneplane_node.engine.sampling.jobs import JobPlace
from tuneplane_node.engine.strangers import Stranger

START_SECONDS = 120.0  # GPU hooks may load drivers
REMOVE_SECONDS = 60.0
MAX_LOG_LINES = 20_000
_POLL_FIRST, _POLL_LAST = 0.05, 1.0
_INIT_PLACES = ("/usr/libexec/podman/catatonit", "/usr/lib/podman/catatonit", "/usr/local/libexec/podman/catatonit")


class DockerRuntime:
    """`name`: docker or podman, as handles carry it. `notes`: directory for what is known and the engine does not know.
    `images`: the file that says which images we pulled and used. `user`: `image` for the image's own, `uid:gid`, or None to choose.

    None means: the image's user when the engine maps it to ours anyway (we are root, or the daemon is rootless), else
    our own uid and gid, so that what a job writes belongs to the console.
    """

    def __init__(
        self,
        name: str,
        address: str,
        instance_id: str,
        notes: Path,
        images: Path,
        *,
        user: str | None,
        docker_config: Path,
        pull_seconds: float,
    ) -> None:
        self.name = name
        self.api = EngineApi(address, name)
        self._instance = instance_id
        self._user = user
        self._unseen = Unseen(notes)
        self._images = Images(self.api, RegistryLogins(docker_config), pull_seconds, ImageUses(images))
        self._launching: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._without_init = False

    async def check(self) -> list[Finding]:
        try:
            facts = await self.api.facts(fresh=True)
        except NodeError as problem:
            return [problem.finding()]
        kind = "Podman" if facts.podman else "Docker"
        findings = [finding("engine-ready", runtime=kind, version=facts.version, address=self.api.address)]
        if not facts.podman and not facts.live_restore:
            findings.append(finding("engine-jobs-end-with-daemon"))
        if not facts.limits:
            findings.append(finding("engine-no-limits", runtime=kind))
        if facts.podman and await asyncio.to_thread(_init_is_missing):
            findings.append(finding("engine-no-init"))
        return findings

    async def gives_gpus(self) -> bool:
        facts = await self.api.facts()
        return bool(await asyncio.to_thread(nvidia_devices)) if facts.podman else facts.nvidia

    async def launch(self, request: LaunchRequest) -> RuntimeHandle:
        if request.image is None:
            raise NodeError("image-missing", runtime=self.name)
        # One launch of a name at a time, so that two cannot both find it created and start it twice.
        lock = self._launching.setdefault(request.name, asyncio.Lock())
        async with lock:
            found = await self._inspect(request.name)
            if found is None:
                await self._refuse_missing_gpus(request)
                async with self._images.using(request.image):
                    found = await self._create_whole(request)
            if not same_identity(request.labels, _labels(found)):
                raise NodeError("name-conflict", name=request.name)
            if (await self._read(found)).state == "created":
                await to_its_end(self._start(request, _id(found)))
        return RuntimeHandle(self.name, request.name)

    async def observe(self, name: str) -> Observed:
        try:
            found = await self._inspect_ours(name)
            return Observed("absent") if found is None else await self._read(found)
        except NodeError as problem:
            return Observed("unknown", detail=f"{problem.code}: {problem.detail}")

    async def stop(self, name: str, grace_seconds: float) -> None:
        if await self._signal(name, "SIGTERM"):
            await self._wait_for_end(name, grace_seconds)
            await self.kill(name)

    async def kill(self, name: str) -> None:
        found = await self._inspect_ours(name)
        if found is not None and states.is_created(found):
            if not await self._ask(self._unseen.kill, _id(found), KILL_SECONDS):
                raise NodeError("still-running", name=name, seconds=KILL_SECONDS)
            return
        if await self._signal(name, "SIGKILL") and not await self._wait_for_end(name, KILL_SECONDS):
            raise NodeError("still-running", name=name, seconds=KILL_SECONDS)

    async def remove(self, name: str) -> bool:
        try:
            await self.kill(name)
            if await self._inspect_ours(name) is not None:
                try:
                    await self.api.call("DELETE", f"/containers/{name}", params={"v": 1}, seconds=REMOVE_SECONDS)
                except ApiError:
                    pass  # gone already, being removed, or busy: only a look decides
                if await self._inspect_ours(name) is not None:
                    return False
            await self._ask(self._unseen.forget, name)
            return True
        except NodeError:
            return False

    async def owned(self) -> list[OwnedContainer]:
        return [OwnedContainer(RuntimeHandle(self.name, name), labels) for name, labels, _id in await self._listed()]

    async def places(self) -> list[JobPlace]:
        # Also those that the engine does not call running: it may not know, and who has no process gives no figures.
        return [
            JobPlace(f"{self.name}/{name}", labels, container=container)
            for name, labels, container in await self._listed()
            if container
        ]

    async def strangers(self) -> list[Stranger]:
        return await find_strangers(self.api, self.name, self._instance)

    async def end_stranger(self, stranger: Stranger) -> bool:
        return await end_stranger(self.api, stranger)

    async def _listed(self) -> list[tuple[str, dict[str, str], str]]:
        """(name, labels, the engine's id) of everything of ours."""
        filters = json.dumps({"label": [f"{LABEL_INSTANCE}={self._instance}"]})
        try:
            listed = await self.api.call("GET", "/containers/json", params={"all": 1, "filters": filters})
            return [
                (str(entry["Names"][0]).lstrip("/"), dict(entry["Labels"] or {}), str(entry.get("Id") or ""))
                for entry in _list(listed)
                if entry["Names"]  # none while it is being removed
            ]
        except (ApiError, AttributeError, KeyError, TypeError, ValueError) as problem:
            raise NodeError(
                "engine-refused", _("its list of containers: {why}").format(why=problem), runtime=self.name
            ) from problem

    async def logs(self, name: str, tail_bytes: int) -> bytes:
        if await self._inspect_ours(name) is None:
            return b""
        kept = bytearray()
        # Lines are all that the API can count from the end; each frame costs eight bytes, so the surplus is small.
        lines = min(MAX_LOG_LINES, max(100, tail_bytes // 16))
        params = {"stdout": 1, "stderr": 1, "tail": lines}
        try:
            async with self.api.stream(
                "GET", f"/containers/{name}/logs", params=params, headers={}, seconds=REMOVE_SECONDS
            ) as pieces:
                async for piece in pieces:
                    kept += piece
        except ApiError as problem:
            if states.is_no_such_container(problem.status, problem.message):
                return b""
            raise NodeError("engine-refused", problem.message, runtime=self.name) from problem
        return states.demultiplex(bytes(kept))[-tail_bytes:]

    async def prune_images(self, limit_bytes: int, pinned: Collection[str]) -> list[str]:
        return await self._images.prune(limit_bytes, pinned)

    async def forget_notes(self) -> int:
        return await self._ask(self._unseen.keep_only, {name for name, _labels, _id in await self._listed()})

    async def close(self) -> None:
        await self.api.close()

    # -- launching

    async def _refuse_missing_gpus(self, request: LaunchRequest) -> None:
        """Docker refuses by itself when it cannot; Podman would start the container without the cards."""
        if not request.gpus or not (await self.api.facts()).podman:
            return
        known = await asyncio.to_thread(nvidia_devices)
        missing = [gpu for gpu in request.gpus if str(gpu) not in known]
        if missing:
            detail = f"no CDI device nvidia.com/gpu={missing[0]}; known: {', '.join(sorted(known)) or 'none'}"
            raise NodeError("gpu-unsupported", detail, runtime=self.name)

    async def _create_whole(self, request: LaunchRequest) -> dict[str, Any]:
        """As `_create`; cancelled meanwhile, it leaves no container that was only created."""
        try:
            return await to_its_end(self._create(request))
        except asyncio.CancelledError:
            if (await self.observe(request.name)).state == "created":
                await self.remove(request.name)
            raise

    async def _create(self, request: LaunchRequest) -> dict[str, Any]:
        try:
            await self._post_create(request)
        except ApiError as problem:
            if problem.status != 409 and not states.is_name_in_use(problem.message):
                raise self._start_error(problem, request) from problem
        found = await self._inspect(request.name)
        if found is None:
            raise NodeError("engine-refused", _("the container vanished after it was created"), runtime=self.name)
        return found

    async def _post_create(self, request: LaunchRequest) -> None:
        facts = await self.api.facts()
        user = self._user_for(facts)
        if not facts.podman:
            body = docker_body(request, facts, user)
            await self.api.call(
                "POST", "/containers/create", params={"name": request.name}, body=body, seconds=START_SECONDS
            )
            return
        try:
            await self._post_podman(podman_body(request, facts, user, init=not self._without_init))
        except ApiError as problem:
            if self._without_init or not states.is_init_missing(problem.message):
                raise
            self._without_init = True  # the runner reaps; `check` says what to install
            await self._post_podman(podman_body(request, facts, user, init=False))

    async def _post_podman(self, body: dict[str, Any]) -> None:
        await self.api.call("POST", "/containers/create", body=body, libpod=True, seconds=START_SECONDS)

    async def _start(self, request: LaunchRequest, container: str) -> None:
        try:
            await self.api.call("POST", f"/containers/{request.name}/start", seconds=START_SECONDS)
        except ApiError as problem:
            if states.is_started_before(problem.message):
                # An earlier start lives, perhaps where we cannot see it: its files must stay. Asked again when it has ended.
                await self._ask(self._unseen.end_what_never_began, container)
                raise NodeError("engine-refused", problem.message, runtime=self.name) from problem
            # Nothing of it ran; what is left would only stand in the way of the next attempt.
            await self.remove(request.name)
            raise self._start_error(problem, request) from problem

    def _start_error(self, problem: ApiError, request: LaunchRequest) -> NodeError:
        return states.start_error(problem.message, self.name, request.command[0], request.workdir)

    def _user_for(self, facts: EngineFacts) -> str | None:
        if self._user is not None:
            return None if self._user == "image" else self._user
        return None if os.geteuid() == 0 or facts.rootless else f"{os.geteuid()}:{os.getegid()}"

    # -- looking

    async def _inspect(self, name: str) -> dict[str, Any] | None:
        """Whatever has this name. None is a proof that nothing has."""
        try:
            answer = await self.api.call("GET", f"/containers/{name}/json")
        except ApiError as problem:
            if states.is_no_such_container(problem.status, problem.message):
                return None
            raise NodeError("engine-refused", problem.message, runtime=self.name) from problem
        if not isinstance(answer, dict):
            raise NodeError("engine-refused", _("the engine's answer is no object"), runtime=self.name)
        return answer

    async def _inspect_ours(self, name: str) -> dict[str, Any] | None:
        found = await self._inspect(name)
        return found if found is not None and _labels(found).get(LABEL_INSTANCE) == self._instance else None

    async def _read(self, found: dict[str, Any]) -> Observed:
        seen = states.read_state(found, (await self.api.facts()).podman)
        if seen.state != "created":
            return seen
        return await self._ask(self._unseen.look, _name(found), _id(found)) or seen

    async def _ask[**P, T](self, look: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """File work off the event loop. A file that cannot be read says nothing about the container."""
        try:
            return await asyncio.to_thread(look, *args, **kwargs)
        except (OSError, ValueError) as problem:
            raise NodeError("record-unusable", str(problem), path=self._unseen.root) from problem

    async def _wait_for_end(self, name: str, seconds: float) -> bool:
        """Whether it ended in time. An engine that cannot be asked meanwhile does not count as an end."""
        deadline, pause = time.monotonic() + seconds, _POLL_FIRST
        while (await self.observe(name)).state not in ("exited", "absent"):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 2, _POLL_LAST)
        return True

    async def _signal(self, name: str, number: str) -> bool:
        """Send a signal to the first process; False when there is none to send it to."""
        found = await self._inspect_ours(name)
        if found is None or (await self._read(found)).state != "running":
            return False
        if states.is_created(found):  # it runs, and the engine, which does not know, would refuse to pass a signal on
            return await self._ask(self._unseen.tell_first, _id(found), signal.Signals[number])
        try:
            if states.is_paused(found):  # by somebody else; no signal reaches it so
                await self.api.call("POST", f"/containers/{name}/unpause")
            await self.api.call("POST", f"/containers/{name}/kill", params={"signal": number})
        except ApiError as problem:
            if (await self.observe(name)).state in ("exited", "absent"):
                return False
            raise NodeError("engine-refused", problem.message, runtime=self.name) from problem
        return True


def _list(answer: object) -> list[dict[str, Any]]:
    """No list is no empty list."""
    if not isinstance(answer, list):
        raise TypeError(f"{type(answer).__name__} in place of a list")
    return answer


def _labels(inspected: dict[str, Any]) -> dict[str, str]:
    return (inspected.get("Config") or {}).get("Labels") or {}


def _id(inspected: dict[str, Any]) -> str:
    return str(inspected.get("Id") or "")


def _name(inspected: dict[str, Any]) -> str:
    return str(inspected.get("Name") or "").lstrip("/")


def _init_is_missing() -> bool:
    return shutil.which("catatonit") is None and not any(Path(place).exists() for place in _INIT_PLACES)
