"""What takes long on a node and outlives whoever asked for it: launches, stops, cleanups.

Each is a task of the daemon. A call starts one or joins the one in flight, and waits for it for a while; the caller asks again
until it is done. Only the daemon's own end ends them, and then the console asks the next daemon.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path

from tuneplane_node.daemon.capsule_files import check_capsule
from tuneplane_node.daemon.file_lane import FileLane, StorageHangsError
from tuneplane_node.daemon.removals import Removals, attempt_key
from tuneplane_node.daemon.tasks import Shared
from tuneplane_node.engine import LABEL_ATTEMPT, LABEL_JOB, Engine, NodeError, RuntimeHandle
from tuneplane_node.wire import LaunchCall

WAIT_SECONDS = 20.0  # less than what a client waits for an answer
CHECK_SECONDS = 60.0  # for the files of one capsule
_LOG = logging.getLogger("tuneplane_node")

type Attempt = tuple[str, str]


class Operations:
    """`storage_root`: below it are the files whose digests are checked. `removals`: what launches come too late for. `wait_seconds`
    bounds one call, never an operation."""

    def __init__(
        self, engine: Engine, storage_root: Path, removals: Removals, *, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        self._engine, self._root, self._wait = engine, storage_root, wait_seconds
        self._launches: Shared[RuntimeHandle] = Shared()
        self._stops: Shared[None] = Shared()
        self._cleanups: Shared[bool] = Shared()
        self._attempts: dict[str, Attempt] = {}  # name of a launch in flight -> whose it is
        self._ends: dict[str, float] = {}  # handle of a stop in flight -> when its grace is over
        self._removals = removals
        self._files = FileLane(CHECK_SECONDS)
        self._closing = False

    @property
    def launching(self) -> int:
        return self._launches.running

    async def launch(self, call: LaunchCall) -> RuntimeHandle | None:
        """None: not done yet. Raises NodeError, the launch's own refusal."""
        request = call.request
        kept = self._launches.of_operation(call.operation)
        if kept is None:
            self._refuse_late(call)
            if self._attempts.get(request.name, _attempt(request.labels)) != _attempt(request.labels):
                raise NodeError("name-conflict", name=request.name)
            self._attempts[request.name] = _attempt(request.labels)
            kept = self._launches.start_or_join(request.name, call.operation, lambda: self._launch(call))
            kept.add_done_callback(lambda _ended: self._forget(request.name))
        return await self._launches.result(kept, self._wait)

    async def stop(self, handle: RuntimeHandle, grace_seconds: float, operation: str = "") -> bool:
        """False: not done yet. A launch in flight is ended first."""
        key, ends = str(handle), time.monotonic() + grace_seconds
        kept = self._stops.of_operation(operation)
        if kept is None:
            kept = self._stops.start_or_join(key, operation, lambda: self._stop(handle, grace_seconds))
            kept.add_done_callback(lambda _ended: self._forget_end(key))
            if ends < self._ends.setdefault(key, ends):
                self._ends[key] = ends
                self._stops.beside(self._kill_after(kept, handle, grace_seconds))
        return await self._stops.is_done(kept, self._wait)

    async def cleanup(self, handle: RuntimeHandle) -> bool:
        """True: gone, proved. False: not yet, or not proved; asked again, it goes on."""
        await self._removals.note(handle.name)
        task = self._cleanups.start_or_join(str(handle), "", lambda: self._cleanup(handle))
        return await self._cleanups.result(task, self._wait) is True

    async def cleanup_attempt(self, job: str, attempt: int) -> bool:
        """As `cleanup` for all of one attempt. Raises NodeError when a runtime that may hold some of it cannot be asked."""
        mine = (job, str(attempt))
        await self._removals.note(attempt_key(*mine))
        task = self._cleanups.start_or_join(f"{job}/{attempt}", "", lambda: self._cleanup_attempt(mine))
        return await self._cleanups.result(task, self._wait) is True

    async def end_strangers(self, job: str, attempt: int, instance: str) -> bool:
        """As `cleanup_attempt`, of what was launched under another node id."""
        key = f"{job}/{attempt}/{instance}"
        task = self._cleanups.start_or_join(key, "", lambda: self._end_strangers(job, str(attempt), instance))
        return await self._cleanups.result(task, self._wait) is True

    def stop_waiting(self) -> None:
        """Who waits is told that it is not done, so that requests end before the daemon does; nothing new begins."""
        self._closing = True
        for shared in (self._launches, self._stops, self._cleanups):
            shared.wake()

    async def close(self, seconds: float) -> None:
        """End what is in flight, as the engine ends it: what has begun runs on, what was only created is removed."""
        self._closing = True
        await asyncio.gather(*(each.close(seconds) for each in (self._launches, self._stops, self._cleanups)))

    def _refuse_late(self, call: LaunchCall) -> None:
        if self._closing:
            raise NodeError("node-stopping")
        if self._removals.is_late(call.ticket, call.request.name, attempt_key(*_attempt(call.request.labels))):
            raise NodeError("launch-superseded", name=call.request.name)

    async def _launch(self, call: LaunchCall) -> RuntimeHandle:
        name = call.request.name
        try:
            await self._check(call.digests)
            handle = await self._engine.launch(call.request)
        except asyncio.CancelledError:
            raise NodeError("node-stopping" if self._closing else "launch-superseded", name=name) from None
        except NodeError as problem:
            _LOG.warning("%s: %s", name, problem)
            raise
        _LOG.info("launched %s", handle)
        return handle

    def _forget(self, name: str) -> None:
        if not self._launches.is_running(name):
            self._attempts.pop(name, None)

    def _forget_end(self, key: str) -> None:
        if not self._stops.is_running(key):
            self._ends.pop(key, None)

    async def _check(self, digests: Mapping[str, str]) -> None:
        if not digests:
            return
        try:
            await self._files.run(_check_digests, digests, self._root)
        except StorageHangsError as problem:
            raise NodeError("capsule-unreadable", str(problem), path=next(iter(digests))) from problem

    async def _stop(self, handle: RuntimeHandle, grace_seconds: float) -> None:
        await self._launches.end(handle.name)
        await self._engine.stop(handle, grace_seconds)
        _LOG.info("stopped %s", handle)

    async def _kill_after(self, stop: asyncio.Task[None], handle: RuntimeHandle, seconds: float) -> None:
        await asyncio.wait({stop}, timeout=seconds)
        if not stop.done():
            await self._engine.kill(handle)

    async def _cleanup(self, handle: RuntimeHandle) -> bool:
        await self._launches.end(handle.name)
        return await self._engine.cleanup(handle)

    async def _end_strangers(self, job: str, attempt: str, instance: str) -> bool:
        gone = await self._engine.end_strangers(job, attempt, instance)
        _LOG.warning("%s/%s of the node id %s: %s", job, attempt, instance, "gone" if gone else "not gone yet")
        return gone

    async def _cleanup_attempt(self, mine: Attempt) -> bool:
        for name in [name for name, attempt in self._attempts.items() if attempt == mine]:
            await self._launches.end(name)
        found = [item.handle for item in await self._engine.owned() if _attempt(item.labels) == mine]
        gone = [await self._engine.cleanup(handle) for handle in found]
        return all(gone)


def _check_digests(digests: Mapping[str, str], root: Path) -> None:
    """Blocking. Raises NodeError path-outside-storage, capsule-unreadable or capsule-altered."""
    folders: dict[str, dict[str, str]] = {}
    for path, digest in digests.items():
        folder, _slash, name = path.rpartition("/")
        folders.setdefault(folder, {})[name] = digest.lower()
    for folder, files in folders.items():
        for problem in check_capsule(root, folder, files):
            raise problem


def _attempt(labels: Mapping[str, str]) -> Attempt:
    return labels.get(LABEL_JOB, ""), labels.get(LABEL_ATTEMPT, "")
