"""The ports at which the first machines of jobs listen: one for each attempt that lives here, kept over restarts of the daemon."""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from tuneplane_node.daemon.main_probe import Greeter, bound_socket, greeting
from tuneplane_node.engine.problems import NodeError
from tuneplane_node.engine.supervisor.records import read_record, write_record

FIRST, LAST = 20_000, 29_999  # below the range from which the kernel usually gives ports to clients
OPEN_SECONDS = 60.0
MAX_RESERVED = 4096
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Reserved:
    port: int
    since: float  # Unix seconds


class Ports:
    """`record`: the file of the reservations, on a local disk. `holds(job, attempt)`: whether something of that attempt is on this
    machine, which may have its port. All calls may be repeated; they are bounded in time."""

    def __init__(
        self,
        record: Path,
        holds: Callable[[str, int], Awaitable[bool]],
        *,
        first: int = FIRST,
        last: int = LAST,
        open_seconds: float = OPEN_SECONDS,
    ) -> None:
        self._record, self._holds = record, holds
        self._range = range(first, last + 1)
        self._open_seconds = open_seconds
        self._reserved: dict[str, _Reserved] | None = None
        self._open: dict[str, tuple[Greeter, asyncio.TimerHandle]] = {}
        self._lock = asyncio.Lock()

    async def reserve(self, job: str, attempt: int) -> int:
        """The same port for the same attempt, as long as it is free or has what it was reserved for. Raises NodeError
        `job-ports-exhausted`, `record-unusable`."""
        key = _key(job, attempt)
        async with self._lock:
            reserved = await self._load()
            mine = reserved.get(key)
            if mine is not None and (key in self._open or _is_free(mine.port) or await self._holds(job, attempt)):
                return mine.port
            if len(reserved) - (mine is not None) >= MAX_RESERVED:
                raise self._exhausted()
            port = await asyncio.to_thread(self._find, key, {other.port for other in reserved.values()})
            await self._save({**reserved, key: _Reserved(port, time.time())})
            return port

    async def open(self, job: str, attempt: int) -> None:
        """Listen on the attempt's port, on every address, for a bounded time. When the attempt is here already, the port is its
        own and is left alone. Raises NodeError `job-port-not-reserved`, `job-port-taken`."""
        key = _key(job, attempt)
        async with self._lock:
            mine = (await self._load()).get(key)
            if mine is None:
                raise NodeError("job-port-not-reserved", job=job, attempt=attempt)
            if key in self._open:
                self._close_later(key, self._open[key][0])
                return
            greeter = Greeter(greeting(job, attempt))
            try:
                await greeter.open(mine.port)
            except OSError as problem:
                if await self._holds(job, attempt):
                    return
                raise NodeError("job-port-taken", str(problem), port=mine.port) from problem
            self._close_later(key, greeter)

    async def close(self, job: str, attempt: int) -> None:
        """Returns when nobody listens there any more, so that the job can."""
        async with self._lock:
            await self._close(_key(job, attempt))

    async def release(self, job: str, attempt: int) -> None:
        """Give the port back. Raises NodeError `record-unusable`."""
        key = _key(job, attempt)
        async with self._lock:
            await self._close(key)
            reserved = await self._load()
            if key in reserved:
                await self._save({other: kept for other, kept in reserved.items() if other != key})

    async def keep_only(self, attempts: Collection[tuple[str, int]], older_than_seconds: float) -> list[int]:
        """Give back what was reserved longer ago than that for attempts that are not among these; the ports."""
        wanted = {_key(job, attempt) for job, attempt in attempts}
        async with self._lock:
            reserved = await self._load()
            before = time.time() - older_than_seconds
            old = {
                key: each
                for key, each in reserved.items()
                if key not in wanted and key not in self._open and each.since < before
            }
            if old:
                await self._save({key: each for key, each in reserved.items() if key not in old})
            return sorted(each.port for each in old.values())

    async def aclose(self) -> None:
        """Listen nowhere any more; the reservations stay."""
        async with self._lock:
            for key in list(self._open):
                await self._close(key)

    def _close_later(self, key: str, greeter: Greeter) -> None:
        if key in self._open:
            self._open[key][1].cancel()
        timer = asyncio.get_running_loop().call_later(self._open_seconds, self._forget, key, greeter)
        self._open[key] = (greeter, timer)

    def _forget(self, key: str, greeter: Greeter) -> None:
        if key in self._open and self._open[key][0] is greeter:
            del self._open[key]
        greeter.close()

    async def _close(self, key: str) -> None:
        found = self._open.pop(key, None)
        if found is not None:
            greeter, timer = found
            timer.cancel()
            greeter.close()
            await greeter.wait_closed()

    def _find(self, key: str, taken: Collection[int]) -> int:
        """From a place that depends on the attempt, so that two machines of one address hardly choose the same."""
        start = zlib.crc32(key.encode()) % len(self._range)
        ephemeral = _ephemeral()
        ports = [self._range[(start + offset) % len(self._range)] for offset in range(len(self._range))]
        # Ports that the kernel may give to any client in the meantime come last.
        for port in sorted(ports, key=lambda port: port in ephemeral):
            if port not in taken and _is_free(port):
                return port
        raise self._exhausted()

    def _exhausted(self) -> NodeError:
        return NodeError("job-ports-exhausted", first=self._range[0], last=self._range[-1])

    async def _load(self) -> dict[str, _Reserved]:
        if self._reserved is None:
            try:
                self._reserved = await asyncio.to_thread(_read, self._record)
            except OSError as problem:
                raise NodeError("record-unusable", str(problem), path=self._record) from problem
        return self._reserved

    async def _save(self, reserved: dict[str, _Reserved]) -> None:
        """On disk before anybody hears of it: after a crash no job is given a port that another one has."""
        value: dict[str, object] = {"ports": {key: [each.port, each.since] for key, each in reserved.items()}}
        try:
            await asyncio.to_thread(_write, self._record, value)
        except OSError as problem:
            raise NodeError("record-unusable", str(problem), path=self._record) from problem
        self._reserved = reserved


def _key(job: str, attempt: int) -> str:
    return f"{job}/{attempt}"


def _read(record: Path) -> dict[str, _Reserved]:
    try:
        value = read_record(record) or {}
        return {str(key): _Reserved(int(port), float(since)) for key, (port, since) in value.get("ports", {}).items()}
    except (ValueError, TypeError, AttributeError) as problem:
        # Nothing runs by this file: a job has its port in its environment. Each new one is looked for anew, and is free.
        _LOG.warning("%s is damaged and is begun anew: %s", record, problem)
        return {}


def _write(record: Path, value: dict[str, object]) -> None:
    record.parent.mkdir(parents=True, exist_ok=True)
    write_record(record, value)


def _is_free(port: int) -> bool:
    """Whether nobody has it, on any address."""
    try:
        bound_socket(port).close()
    except OSError:
        return False
    return True


def _ephemeral() -> range:
    try:
        low, high = _EPHEMERAL.read_text().split()
        return range(int(low), int(high) + 1)
    except (OSError, ValueError):
        return range(0)
