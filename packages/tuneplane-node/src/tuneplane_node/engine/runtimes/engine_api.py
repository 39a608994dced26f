"""HTTP to a container engine over its Unix socket: Docker's API, which Podman also answers.

Docker Engine API reference: https://docs.docker.com/reference/api/engine/ ; Podman's own calls (`/libpod/…`):
https://docs.podman.io/en/latest/_static/api.html .
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from tuneplane_node.engine.problems import NodeError

CALL_SECONDS = 15.0
CONNECT_SECONDS = 5.0
FACTS_SECONDS = 60.0
MAX_ANSWER = 32 * 1024 * 1024
# The newest API that this code was written against; an older engine is spoken to in its own.
_NEWEST_API = (1, 47)


@dataclass(frozen=True)
class EngineFacts:
    """What an engine says about itself. `libpod` is the version of Podman's own API, empty for Docker."""

    podman: bool
    version: str
    api: str
    libpod: str
    rootless: bool
    selinux: bool
    nvidia: bool
    limits: bool
    live_restore: bool
    memory_bytes: int


class ApiError(Exception):
    """The engine answered, and said no."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.message = message[:2000]
        super().__init__(f"{status} {self.message}")


class EngineApi:
    """Calls to one engine at `unix:///path`. Every transport fault is NodeError `engine-unreachable`."""

    def __init__(self, address: str, runtime: str) -> None:
        scheme, _, path = address.partition("://")
        if scheme != "unix" or not path.startswith("/"):
            raise NodeError("engine-address", address=address)
        self.address = address
        self._runtime = runtime
        # A connection for each call: on a local socket it costs nothing, and a daemon that was restarted leaves none
        # behind that looks alive.
        self._client = httpx2.AsyncClient(
            transport=httpx2.AsyncHTTPTransport(uds=path, limits=httpx2.Limits(max_keepalive_connections=0)),
            base_url="http://engine",
        )
        self._facts: EngineFacts | None = None
        self._facts_until = 0.0

    async def facts(self, fresh: bool = False) -> EngineFacts:
        """Kept for a minute, because an engine may be upgraded or given GPUs while we run."""
        if self._facts is None or fresh or time.monotonic() > self._facts_until:
            try:
                version = await self._json("GET", "/version")
                info = await self._json("GET", "/info")
                self._facts = _read_facts(version, info)
            except ApiError as problem:
                raise NodeError("engine-refused", problem.message, runtime=self._runtime) from problem
            except (AttributeError, KeyError, TypeError, ValueError) as problem:
                raise self._unreachable(f"it does not speak the Docker API: {problem}") from problem
            self._facts_until = time.monotonic() + FACTS_SECONDS
        return self._facts

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        libpod: bool = False,
        seconds: float | None = None,
    ) -> Any:
        """One call of the versioned API; returns the decoded JSON, None when there is none. Raises ApiError."""
        return await self._json(method, await self._path(path, libpod), params=params, body=body, seconds=seconds)

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, params: Mapping[str, Any], headers: Mapping[str, str], seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """A call whose answer is read as it comes. `seconds` bounds the silence between two pieces."""
        url = await self._path(path, libpod=False)
        timeout = httpx2.Timeout(seconds, connect=CONNECT_SECONDS)
        try:
            async with self._client.stream(method, url, params=params, headers=headers, timeout=timeout) as response:
                if not response.is_success:
                    raise ApiError(response.status_code, _message(await response.aread()))
                yield response.aiter_bytes()
        except httpx2.TransportError as problem:
            raise self._unreachable(problem) from problem

    async def close(self) -> None:
        await self._client.aclose()

    async def _path(self, path: str, libpod: bool) -> str:
        facts = await self.facts() if self._facts is None else self._facts
        return f"/v{facts.libpod}/libpod{path}" if libpod else f"/v{facts.api}{path}"

    async def _json(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        seconds: float | None = None,
    ) -> Any:
        timeout = httpx2.Timeout(CALL_SECONDS if seconds is None else seconds, connect=CONNECT_SECONDS)
        try:
            async with self._client.stream(method, path, params=params, json=body, timeout=timeout) as response:
                content = await _read_bounded(response)
        except httpx2.TransportError as problem:
            raise self._unreachable(problem) from problem
        if not response.is_success and response.status_code != httpx2.codes.NOT_MODIFIED:
            raise ApiError(response.status_code, _message(content))
        if not content.strip():
            return None
        try:
            return json.loads(content)
        except ValueError:
            raise self._unreachable("its answer is not JSON") from None

    def _unreachable(self, problem: Exception | str) -> NodeError:
        self._facts = None  # whoever answers next may be another version
        detail = problem if isinstance(problem, str) else f"{type(problem).__name__}: {problem}"
        return NodeError("engine-unreachable", detail, runtime=self._runtime, address=self.address)


async def _read_bounded(response: httpx2.Response) -> bytes:
    content = bytearray()
    async for piece in response.aiter_bytes():
        content += piece
        if len(content) > MAX_ANSWER:
            raise ApiError(response.status_code, f"the engine's answer is larger than {MAX_ANSWER} bytes")
    return bytes(content)


def _message(content: bytes) -> str:
    """The engine's own words out of an error body."""
    try:
        value = json.loads(content)
    except ValueError:
        return content.decode(errors="replace").strip()
    return str(value.get("message") or value.get("error") or value) if isinstance(value, dict) else str(value)


def _read_facts(version: dict[str, Any], info: dict[str, Any]) -> EngineFacts:
    parts = {part.get("Name", ""): part for part in version.get("Components") or ()}
    podman = parts.get("Podman Engine")
    security = " ".join(info.get("SecurityOptions") or ())
    devices = [str(device.get("ID", "")) for device in info.get("DiscoveredDevices") or ()]
    return EngineFacts(
        podman=podman is not None,
        version=str(version.get("Version", "")),
        api=_choose_api(str(version["ApiVersion"]), str(version.get("MinAPIVersion", "1.24"))),
        libpod=str(podman["Details"]["APIVersion"]) if podman else "",
        rootless="name=rootless" in security or info.get("Rootless") is True,
        selinux="name=selinux" in security,
        nvidia="nvidia" in (info.get("Runtimes") or {}) or any(name.startswith("nvidia.com/gpu") for name in devices),
        limits=bool(info.get("MemoryLimit", True)) and bool(info.get("CpuCfsQuota", info.get("CPUCfsQuota", True))),
        live_restore=bool(info.get("LiveRestoreEnabled")),
        memory_bytes=int(info.get("MemTotal") or 0),
    )


def _choose_api(newest: str, oldest: str) -> str:
    def numbers(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in text.split("."))

    return ".".join(map(str, max(min(_NEWEST_API, numbers(newest)), numbers(oldest))))
