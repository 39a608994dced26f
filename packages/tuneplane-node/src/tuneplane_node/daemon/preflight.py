"""What a member of a job has to fulfil before its trainer starts, everything that is wrong at once."""

from __future__ import annotations

import asyncio
import shutil
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tuneplane.contract.words import CAPSULE_FILE
from tuneplane_node.daemon.addresses import LocalAddress, interface_of, local_addresses, route_towards
from tuneplane_node.daemon.capsule_files import PAUSE_SECONDS, check_capsule
from tuneplane_node.daemon.file_lane import FileLane, StorageHangsError
from tuneplane_node.daemon.main_probe import greeting, plain_words, reach
from tuneplane_node.engine.problems import Finding, NodeError
from tuneplane_node.engine.strangers import Stranger
from tuneplane_node.wire import MachineAddress, NodeProblem, PreflightReport, PreflightRequest

MAX_CLOCK_SECONDS = 60.0  # curves and time limits bear less; what the request itself takes counts as well
DNS_SECONDS, CONNECT_SECONDS = 5.0, 5.0
FILE_SECONDS = 20.0
MAX_PLACES = 4
SMALL_SHM = 1 << 30
GIB = 1024**3
_FILES = FileLane(FILE_SECONDS, most=64)  # one for all: what hangs counts whoever asked
SHM = Path("/dev/shm")  # noqa: S108 - it is looked at, nothing is put there


@dataclass(frozen=True)
class Here:
    """What the daemon knows of its machine. `gpus`: indexes of its inventory. `process`: jobs are processes of this machine, whose
    own /dev/shm they use; a container gets one from its engine. `strangers`: jobs of other node ids. `pause`: seconds between two looks at a file that is not yet here.
    `unread`: why its cards cannot be listed now."""

    storage_root: Path
    state_root: Path
    gpus: frozenset[int]
    process: bool
    shm: Path = SHM
    clock: Callable[[], float] = time.time
    pause: float = PAUSE_SECONDS
    files: FileLane = _FILES
    strangers: Sequence[Stranger] = ()
    unread: Finding | None = None


async def preflight(request: PreflightRequest, here: Here) -> PreflightReport:
    """Bounded by the slowest of its parts, about 20 s, so that the caller still waits. Raises nothing for what is wrong with the machine."""
    offset = here.clock() - request.console_time
    addresses = await asyncio.to_thread(local_addresses)
    (ingest, towards), (reached, interface, main), files = await asyncio.gather(
        _ingest(request.ingest_url), _main(request, addresses), _files(request, here)
    )
    problems = [*_clock(request, offset), *_gpus(request, here), *files, *ingest, *main]
    return PreflightReport(
        problems=tuple(NodeProblem.of(problem) for problem in problems),
        ips=tuple(MachineAddress(each.address, each.interface) for each in _best_first(addresses, towards)),
        clock_offset=round(offset, 3) if request.console_time else 0.0,
        reached=reached,
        interface=interface or (towards.interface if towards else ""),
    )


async def check_address(host: str, port: int) -> tuple[list[NodeError], LocalAddress | None]:
    """Whether a name can be found and a connection opened to it: `ingest-dns`, `ingest-unreachable`; and by which of our
    addresses."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(DNS_SECONDS):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError:
        return [NodeError("ingest-dns", f"no answer within {DNS_SECONDS:.0f} s", host=_hostname(), name=host)], None
    except (OSError, UnicodeError) as problem:
        return [NodeError("ingest-dns", str(problem), host=_hostname(), name=host)], None
    places = list(dict.fromkeys(str(entry[4][0]) for entry in found))[:MAX_PLACES]
    tried = dict(zip(places, await asyncio.gather(*(_connect(place, port) for place in places)), strict=True))
    good = next((place for place, problem in tried.items() if not problem), None)
    if good is not None:
        return [], await asyncio.to_thread(route_towards, good)
    detail = "; ".join(f"{place}: {problem}" for place, problem in tried.items())
    return [NodeError("ingest-unreachable", detail, host=_hostname(), address=f"{host}:{port}")], None


def check_shared_memory(shm: Path = SHM) -> list[NodeError]:
    """`shm-missing` or `shm-small`."""
    if not shm.is_dir():
        return [NodeError("shm-missing", host=_hostname())]
    size = shutil.disk_usage(shm).total
    return [NodeError("shm-small", host=_hostname(), size=f"{size / GIB:.1f}")] if size < SMALL_SHM else []


def check_space(path: Path, needed: int) -> list[NodeError]:
    """`disk-low`, of the file system that has `path` (or will have it)."""
    existing = next(candidate for candidate in (path, *path.parents) if candidate.exists())
    free = shutil.disk_usage(existing).free
    if free >= needed:
        return []
    return [NodeError("disk-low", host=_hostname(), path=path, free=f"{free / GIB:.1f}", needed=f"{needed / GIB:.1f}")]


async def _ingest(url: str) -> tuple[list[NodeError], LocalAddress | None]:
    if not url:
        return [], None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        host, port = None, 0
    if not host:
        return [NodeError("request-invalid", field="ingest_url", value=url[:200])], None
    return await check_address(host, port)


async def _main(request: PreflightRequest, own: Sequence[LocalAddress]) -> tuple[str | None, str, list[NodeError]]:
    """(the address that was reached, the interface towards it, what is wrong)."""
    if request.main is None:
        return None, "", []
    said = greeting(request.job, request.attempt)
    answer = await reach(request.main.ips, request.main.port, said, frozenset(each.address for each in own))
    if answer.address is not None:
        return answer.address, await asyncio.to_thread(interface_of, answer.own), []
    tried = "; ".join(f"{address}: {why}" for address, why in answer.tried.items())
    places = ", ".join(f"{address} port {request.main.port}" for address in answer.tried)
    return None, "", [NodeError("main-unreachable", tried, host=_hostname(), addresses=places or "–")]


async def _files(request: PreflightRequest, here: Here) -> list[NodeError]:
    """Disk space, /dev/shm and the capsule. A storage root that hangs is told as one that cannot be used."""
    try:
        return await here.files.run(_look_at_files, request, here)
    except (StorageHangsError, OSError) as problem:
        return [NodeError("storage-unusable", str(problem), path=here.storage_root, host=_hostname())]


def _look_at_files(request: PreflightRequest, here: Here) -> list[NodeError]:
    problems = check_shared_memory(here.shm) if here.process else []
    seen = set()
    for path in (here.storage_root, here.state_root) if request.min_free_bytes else ():
        existing = next(candidate for candidate in (path, *path.parents) if candidate.exists())
        device = existing.stat().st_dev
        if device not in seen:
            seen.add(device)
            problems += check_space(path, request.min_free_bytes)
    files = dict(request.files)
    if request.capsule_sha256:
        files.setdefault(CAPSULE_FILE, request.capsule_sha256)
    return problems + (check_capsule(here.storage_root, request.capsule_dir, files, pause=here.pause) if files else [])


def _clock(request: PreflightRequest, offset: float) -> list[NodeError]:
    if not request.console_time or abs(offset) <= MAX_CLOCK_SECONDS:
        return []
    detail = f"{'ahead' if offset > 0 else 'behind'} by {abs(offset):.1f} s"
    return [NodeError("clock-offset", detail, host=_hostname(), seconds=round(abs(offset)))]


def _gpus(request: PreflightRequest, here: Here) -> list[NodeError]:
    if request.gpus and here.unread is not None:  # that may pass; a card that is missing does not
        return [NodeError(here.unread.code, here.unread.detail)]
    problems = [
        NodeError("gpu-unknown", f"{_hostname()} has {_shown(here.gpus)}", index=index)
        for index in request.gpus
        if index not in here.gpus
    ]
    for index in request.gpus:
        holder = next((each for each in here.strangers if each.holds(index)), None)
        if holder is not None:
            name, of = str(holder.handle), holder.instance
            problem = NodeError("card-held-by-stranger", index=index, host=_hostname(), name=name, instance=of)
            problems.append(problem)
    return problems


def _shown(gpus: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(gpus))) or "none"


def _best_first(addresses: Sequence[LocalAddress], towards: LocalAddress | None) -> list[LocalAddress]:
    """The one that the console is reached by comes first: the nodes most likely share that network."""
    return sorted(addresses, key=lambda each: towards is None or each.address != towards.address)


async def _connect(address: str, port: int) -> str:
    """Empty when it can be connected to, else why not."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _reader, writer = await asyncio.open_connection(address, port)
    except TimeoutError:
        return f"no answer within {CONNECT_SECONDS:.0f} s"
    except OSError as problem:
        return plain_words(problem)
    writer.close()
    return ""


def _hostname() -> str:
    return socket.gethostname()
