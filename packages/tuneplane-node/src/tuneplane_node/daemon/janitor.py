"""Tidy up behind jobs that are over: what a crash, a console that went away or a hand of somebody left on this machine.

What a job needs goes with its cleanup, which the console orders and which is proved. The janitor takes what is left then: ended
containers that nobody asked about for a week although the console is there, notes and ports of containers that are gone, proofs of
storage, images beyond a limit. It touches only what carries this node's id or stands in its own records; each round is bounded.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tuneplane_node.daemon.file_lane import FileLane, StorageHangsError
from tuneplane_node.daemon.ports import Ports
from tuneplane_node.daemon.storage_proof import forget_proofs
from tuneplane_node.engine import LABEL_ATTEMPT, LABEL_JOB, Engine, NodeError, OwnedContainer

KEEP_ENDED = timedelta(days=7)
HEARD_SECONDS = (
    3600.0  # without a break, until the console has had every chance to ask about what ended while it was away
)
KEEP_PORT_SECONDS = 86_400.0
MAX_CONTAINERS = 50  # of one round
ROUND_SECONDS = 600.0
GB = 1000**3
_FILE_SECONDS = 15.0
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Swept:
    """What one round removed. `problems`: why a part of it could not be done; the next round tries again."""

    containers: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    notes: int = 0
    proofs: int = 0
    problems: tuple[str, ...] = ()

    @property
    def anything(self) -> bool:
        return bool(self.containers or self.images or self.ports or self.notes or self.proofs)


class Janitor:
    """`storage_root`, `node_id`: as of the proofs of storage. `image_limit_bytes`: what pulled images may take, None for any amount."""

    def __init__(
        self,
        engine: Engine,
        ports: Ports,
        storage_root: Path,
        node_id: str,
        image_limit_bytes: int | None = None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        steady: Callable[[], float] = time.monotonic,
        files: FileLane | None = None,
    ) -> None:
        self._engine, self._ports = engine, ports
        self._storage_root, self._node_id = storage_root, node_id
        self._image_limit = image_limit_bytes
        self._now, self._steady = now, steady
        self._heard_since: float | None = None
        self._files = files or FileLane(_FILE_SECONDS, most=2)
        self._last_problems: tuple[str, ...] = ()

    async def sweep(self, pinned: Collection[str] = (), *, console_heard: bool) -> Swept:
        """One round. `pinned`: images that stay whatever room they take. `console_heard`: the console answered lately. Never raises
        for what is wrong with the machine."""
        if not console_heard:
            self._heard_since = None
        elif self._heard_since is None:
            self._heard_since = self._steady()
        problems: list[str] = []
        try:
            async with asyncio.timeout(ROUND_SECONDS):
                swept = await self._round(pinned, problems)
        except TimeoutError:
            swept = Swept(problems=(*problems, f"not done within {ROUND_SECONDS:.0f} s"))
        self._log(swept)
        return swept

    async def _round(self, pinned: Collection[str], problems: list[str]) -> Swept:
        async def tried[T](part: Awaitable[T], otherwise: T) -> T:
            """One part that fails must not keep the others from their turn."""
            try:
                return await part
            except NodeError as problem:
                problems.append(f"{problem.code}: {problem.detail or problem}")
            except (OSError, StorageHangsError) as problem:
                problems.append(str(problem))
            return otherwise

        containers = await tried(self._containers(), None)
        ended: tuple[str, ...] = ()
        if containers is not None:
            if self._heard_since is not None and self._steady() - self._heard_since >= HEARD_SECONDS:
                ended = await tried(self._forgotten(containers), ())
            ports = tuple(await tried(self._ports.keep_only(_attempts(containers), KEEP_PORT_SECONDS), []))
            notes = await tried(self._engine.forget_notes(), 0)
        else:
            ports, notes = (), 0  # what is not known to be gone is kept
        images: tuple[str, ...] = ()
        if self._image_limit is not None:
            images = tuple(await tried(self._engine.prune_images(self._image_limit, pinned), []))
        proofs = await tried(self._files.run(_old_proofs, self._storage_root, self._node_id), 0)
        return Swept(ended, images, ports, notes, proofs, tuple(problems))

    async def _containers(self) -> list[OwnedContainer]:
        return await self._engine.owned()

    async def _forgotten(self, containers: Collection[OwnedContainer]) -> tuple[str, ...]:
        """Ended a week ago, and the console, which is there, has not had them cleaned up: it knows nothing of them."""
        removed: list[str] = []
        before = self._now() - KEEP_ENDED
        for container in containers:
            if len(removed) >= MAX_CONTAINERS:
                break
            seen = await self._engine.observe(container.handle)
            old = seen.state == "exited" and seen.finished_at is not None and seen.finished_at < before
            if old and await self._engine.cleanup(container.handle):
                removed.append(str(container.handle))
        return tuple(removed)

    def _log(self, swept: Swept) -> None:
        if swept.anything:
            _LOG.info(
                "tidied up: %d containers, %d notes, %d proofs, ports %s, images %s",
                len(swept.containers), swept.notes, swept.proofs, list(swept.ports), list(swept.images),
            )  # fmt: skip
        if swept.problems and swept.problems != self._last_problems:  # said when it changes, not every round
            _LOG.warning("could not tidy up everything: %s", "; ".join(swept.problems))
        self._last_problems = swept.problems


def image_limit(gigabytes: float | None) -> int | None:
    """Bytes of TUNEPLANE_NODE_IMAGE_LIMIT_GB; None and 0 mean that pulled images stay."""
    return int(gigabytes * GB) if gigabytes else None


def _attempts(containers: Collection[OwnedContainer]) -> set[tuple[str, int]]:
    found = set()
    for container in containers:
        attempt = container.labels.get(LABEL_ATTEMPT, "")
        if attempt.isdecimal():
            found.add((container.labels.get(LABEL_JOB, ""), int(attempt)))
    return found


def _old_proofs(root: Path, node_id: str) -> int:
    return forget_proofs(root, node_id, older_than_seconds=3600.0)
