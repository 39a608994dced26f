"""Everything that `tuneplane-node check` looks at. It only looks: it starts and writes nothing."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import socket
import ssl
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx2

from tuneplane.i18n import current_language
from tuneplane_node.agent_token import FILE_VARIABLE, TOKEN_VARIABLE, AgentToken
from tuneplane_node.daemon.file_lane import FileLane, StorageHangsError
from tuneplane_node.daemon.preflight import MAX_CLOCK_SECONDS, check_shared_memory, check_space
from tuneplane_node.daemon.storage_proof import describe_storage
from tuneplane_node.engine import Engine, Inventory, NodeError
from tuneplane_node.engine.problems import Finding, finding
from tuneplane_node.settings import NodeSettings
from tuneplane_node.tls_words import tls_trouble
from tuneplane_node.versions import VERSION, fit
from tuneplane_node.wire import ANNOUNCE_PATH, VERSION_HEADER

PROCESS = "process"
MIN_FREE_BYTES = 1024**3
FILE_SECONDS, CONSOLE_SECONDS = 10.0, 10.0
MAX_CONSOLE_ANSWER = 64 * 1024
WANTED_FILES, WANTED_PROCESSES = 20_000, 4096
_PCI, _INFINIBAND = Path("/sys/bus/pci/devices"), Path("/sys/class/infiniband")
_NVIDIA_VENDOR, _DISPLAY_CLASS = "0x10de", "0x03"


async def check_machine(settings: NodeSettings, engine: Engine, env: Mapping[str, str] | None = None) -> list[Finding]:
    """What is wrong with this machine, and what to know, in the current language: first what jobs need, then, where this is to be
    a node (a console or a token is set), what a node needs."""
    source = os.environ if env is None else env
    found = await engine.check()
    inventory = await engine.inventory()
    found += _gpus(inventory)
    found += await _files([settings.state_root])
    found += check_limits()
    if (await _runtime(engine)) == PROCESS:
        found += [problem.finding() for problem in check_shared_memory()]
    if not (settings.console_url or source.get(TOKEN_VARIABLE) or source.get(FILE_VARIABLE)):
        return [*found, finding("node-not-set-up")]
    token, about_token = _token(source)
    storage, console = await asyncio.gather(_storage(settings.storage_root), _console(settings, token))
    return [*found, *storage, *about_token, *await _port(settings), *console]


def check_limits(infiniband: Path = _INFINIBAND) -> list[Finding]:
    """Limits of this user that jobs inherit, or that a container engine cannot go beyond."""
    wanted = [
        (resource.RLIMIT_NOFILE, "nofile", WANTED_FILES, "LimitNOFILE="),
        (resource.RLIMIT_NPROC, "nproc", WANTED_PROCESSES, "LimitNPROC="),
    ]
    found = []
    for kind, name, least, directive in wanted:
        hard = resource.getrlimit(kind)[1]
        if hard != resource.RLIM_INFINITY and hard < least:
            found.append(finding("limit-low", limit=name, value=hard, wanted=least, directive=directive))
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    if infiniband.is_dir() and locked != resource.RLIM_INFINITY:  # RDMA pins the buffers that it sends from
        found.append(
            finding("limit-low", limit="memlock", value=locked, wanted="unlimited", directive="LimitMEMLOCK=infinity")
        )
    return found


def _gpus(inventory: Inventory, pci: Path = _PCI) -> list[Finding]:
    if inventory.findings:
        return []  # a driver that does not answer, or invented cards: the engine has said so
    if inventory.gpus:
        names = ", ".join(sorted({gpu.name for gpu in inventory.gpus}))
        driver = inventory.gpus[0].driver or "?"
        return [finding("gpu-ready", count=len(inventory.gpus), names=names, driver=driver)]
    return (
        [finding("gpu-no-driver")] if _has_card(pci) and shutil.which("nvidia-smi") is None else [finding("gpu-none")]
    )


def _has_card(pci: Path) -> bool:
    """Whether an NVIDIA card is plugged in, whatever drivers there are."""
    for device in pci.iterdir() if pci.is_dir() else ():
        try:
            vendor, kind = (device / "vendor").read_text().strip(), (device / "class").read_text().strip()
        except OSError:
            continue
        if vendor == _NVIDIA_VENDOR and kind.startswith(_DISPLAY_CLASS):
            return True
    return False


async def _files(paths: list[Path]) -> list[Finding]:
    return [
        problem.finding() for path in paths for problem in await asyncio.to_thread(check_space, path, MIN_FREE_BYTES)
    ]


async def _storage(root: Path | None) -> list[Finding]:
    if root is None:
        return [finding("setting-missing", setting="TUNEPLANE_STORAGE_ROOT", form="/data/tuneplane")]
    try:
        return await FileLane(FILE_SECONDS).run(_look_at_storage, root)
    except (StorageHangsError, OSError) as problem:
        return [finding("storage-unusable", str(problem), path=root, host=socket.gethostname())]


def _look_at_storage(root: Path) -> list[Finding]:
    host = socket.gethostname()
    if not root.exists():
        return [finding("storage-missing", path=root, host=host)]
    side = describe_storage(root)
    if os.statvfs(root).f_flag & os.ST_RDONLY:
        return [finding("storage-read-only", path=root, host=host)]
    if not root.is_dir() or not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        return [finding("storage-unusable", path=root, host=host)]
    low = [problem.finding() for problem in check_space(root, MIN_FREE_BYTES)]
    return [finding("storage-ready", path=root, fs_type=side.fs_type or "?", source=side.source or "?"), *low]


def _token(source: Mapping[str, str]) -> tuple[str, list[Finding]]:
    """The token, empty where there is none of use, and what to say of it."""
    try:
        token = AgentToken.load(source)()
    except NodeError as problem:
        return "", [problem.finding()]
    found = [finding("token-ready")]
    path = source.get(FILE_VARIABLE)
    if path:
        mode = Path(path).expanduser().stat().st_mode & 0o777
        if mode & 0o077:
            found.append(finding("token-file-open", path=path, mode=f"{mode:04o}"))
    return token, found


async def _port(settings: NodeSettings) -> list[Finding]:
    try:
        with socket.create_server((settings.host, settings.port), family=_family(settings.host)):
            return [finding("node-port-free", port=settings.port)]
    except OSError as problem:
        if await _is_node(settings):
            return [finding("node-port-ours", port=settings.port)]
        return [finding("port-taken", host=settings.host, port=settings.port, why=os.strerror(problem.errno or 0))]


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


async def _is_node(settings: NodeSettings) -> bool:
    """By the header that every answer of a node has. Nothing secret is sent, so whose certificate it is does not matter."""
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104 - compared
    address = f"{settings.scheme}://{f'[{host}]' if ':' in host else host}:{settings.port}/"
    try:
        async with httpx2.AsyncClient(verify=False, timeout=CONSOLE_SECONDS, trust_env=False) as client:
            return VERSION_HEADER in (await client.get(address)).headers
    except (httpx2.HTTPError, httpx2.InvalidURL):
        return False


async def _console(settings: NodeSettings, token: str) -> list[Finding]:
    """Whether a console of a fitting version answers, how far the clocks are apart, and whether it accepts the token."""
    url = settings.console_url
    if not url:
        return [finding("setting-missing", setting="TUNEPLANE_CONSOLE_URL", form="http://10.0.0.1:8642")]
    try:
        verify = True if settings.ca_file is None else ssl.create_default_context(cafile=str(settings.ca_file))
        async with httpx2.AsyncClient(verify=verify, timeout=CONSOLE_SECONDS) as client:
            response = await client.get(f"{url}/api/v1/server")
            now = time.time()
            said = _said(response)
            if said.get("name") != "tuneplane":  # whatever that is, it gets no token
                return [finding("console-answer", f"status {response.status_code}", url=url)]
            about_token = await _token_there(client, url, token) if token else []
    except (httpx2.HTTPError, OSError, ssl.SSLError) as problem:
        why = await tls_trouble(url, problem, CONSOLE_SECONDS)
        if why:
            return [finding("console-tls", url=url, why=why)]
        return [finding("console-unreachable", f"{type(problem).__name__}: {problem}", url=url)]
    version = str(said.get("version", ""))
    found = [] if fit(VERSION, version) else [
        finding("node-version", address=settings.address or socket.gethostname(), node=VERSION, console=version)
    ]  # fmt: skip
    return [*found, *_clock(url, response, now), *about_token]


async def _token_there(client: httpx2.AsyncClient, url: str, token: str) -> list[Finding]:
    """An announcement of nothing: the console looks at the token first, and refuses the rest, so that no node joins by this."""
    headers = {"Authorization": f"Bearer {token}", "Accept-Language": current_language()}
    response = await client.post(f"{url}{ANNOUNCE_PATH}", content=b"null", headers=headers)
    if response.status_code not in (401, 429):
        return [finding("console-token-ready")]
    said = _said(response)
    why = str(said.get("detail") or said.get("title") or f"HTTP {response.status_code}")[:300]
    return [finding("console-token", url=url, why=why)]


def _said(response: httpx2.Response) -> dict[str, Any]:
    """The object that an answer holds; empty when it holds anything else."""
    try:
        said = response.json() if len(response.content) <= MAX_CONSOLE_ANSWER else None
    except ValueError:
        said = None
    return said if isinstance(said, dict) else {}


def _clock(url: str, response: httpx2.Response, now: float) -> list[Finding]:
    """The console tells whole seconds."""
    try:
        there = parsedate_to_datetime(response.headers["date"]).timestamp()
    except (KeyError, ValueError, TypeError):
        return [finding("console-ready", url=url, seconds="?")]
    offset = now - (there + 0.5) - response.elapsed.total_seconds() / 2
    if abs(offset) > MAX_CLOCK_SECONDS:
        return [finding("clock-offset", host=socket.gethostname(), seconds=round(abs(offset)))]
    return [finding("console-ready", url=url, seconds=f"{max(0.0, abs(offset) - 0.5):.0f}")]


async def _runtime(engine: Engine) -> str:
    try:
        return await engine.runtime_name()
    except NodeError:
        return ""  # the engine's own check has said what is wrong
