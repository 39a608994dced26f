"""Bring an image to the machine when it is not there, and say in our words why it cannot be had."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from weakref import WeakValueDictionary

from tuneplane.i18n import _
from tuneplane_node.engine.problems import NodeError
from tuneplane_node.engine.runtimes.container_state import is_no_such_image
from tuneplane_node.engine.runtimes.engine_api import ApiError, EngineApi
from tuneplane_node.engine.runtimes.registry_login import RegistryLogins

SILENCE_SECONDS = 300.0  # engines report progress every few hundred milliseconds; unpacking a large layer is silent
_MAX_LINE = 1024 * 1024

# Words of the engines for each cause; the first that fits wins, the surest first.
_CAUSES = tuple(
    (code, re.compile(words))
    for code, words in (
        ("image-rate-limited", r"toomanyrequests|too many requests|rate limit|\b429\b"),
        ("image-disk-full", r"no space left on device|disk quota exceeded|not enough space"),
        ("image-tls", r"x509:|\btls:|certificate|http response to https client"),
        (
            "image-unauthorized",
            r"unauthorized|authentication required|no basic auth credentials|access denied|\bdenied:|forbidden|\b40[13]\b",
        ),
        (
            "image-not-found",
            r"manifest unknown|name unknown|does not exist|not found|no matching manifest|unknown to registry|\b404\b"
            r"|invalid reference format|no such image|no image found",
        ),
        (
            "image-registry-unreachable",
            r"no such host|connection refused|i/o timeout|network is unreachable|no route to host|connection reset"
            r"|client\.timeout|request canceled|server misbehaving|dial tcp|deadline exceeded|proxyconnect|\beof\b",
        ),
    )
)


class Images:
    """`pull_seconds` bounds one pull from its start to its end."""

    def __init__(self, api: EngineApi, logins: RegistryLogins, pull_seconds: float) -> None:
        self._api = api
        self._logins = logins
        self._pull_seconds = pull_seconds
        self._pulling: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def ensure(self, image: str) -> None:
        """Return when the image is there. An image that is there is never looked up in its registry again."""
        if await self._present(image):
            return
        lock = self._pulling.setdefault(image, asyncio.Lock())
        async with lock:  # several jobs with one image pull it once
            if not await self._present(image):
                await self._pull(image)

    async def _present(self, image: str) -> bool:
        try:
            await self._api.call("GET", f"/images/{image}/json")
        except ApiError as problem:
            if problem.status == 404 or is_no_such_image(problem.message):
                return False
            raise pull_error(image, problem.message) from problem
        return True

    async def _pull(self, image: str) -> None:
        name, tag = split_reference(image)
        headers = await self._logins.header(image)
        try:
            async with (
                asyncio.timeout(self._pull_seconds),
                self._api.stream(
                    "POST",
                    "/images/create",
                    params={"fromImage": name, "tag": tag},
                    headers=headers,
                    seconds=min(SILENCE_SECONDS, self._pull_seconds),
                ) as pieces,
            ):
                async for line in _lines(pieces):
                    message = _error_in(line)
                    if message:
                        raise pull_error(image, message)
        except TimeoutError:
            raise NodeError("image-pull-timeout", image=image, seconds=round(self._pull_seconds)) from None
        except ApiError as problem:
            raise pull_error(image, problem.message) from problem
        if not await self._present(image):
            raise NodeError(
                "image-pull-failed", _("the engine says that it pulled it, and does not have it"), image=image
            )


def split_reference(image: str) -> tuple[str, str]:
    """Name and tag or digest, as the engines want them; without either, `latest`, because none would mean all."""
    name, at, digest = image.partition("@")
    head, colon, tag = name.rpartition(":")
    tagged = bool(colon) and "/" not in tag  # a colon before a slash belongs to the registry's port
    if at:
        return (head if tagged else name), digest
    return (head, tag) if tagged else (name, "latest")


def pull_error(image: str, message: str) -> NodeError:
    text = message.lower().replace(split_reference(image)[0].lower(), "")  # a name may hold any of the words
    code = next((code for code, words in _CAUSES if words.search(text)), "image-pull-failed")
    return NodeError(code, message, image=image)


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    buffer = b""
    async for piece in pieces:
        buffer += piece
        *whole, buffer = buffer.split(b"\n")
        for line in whole:
            yield line
        buffer = buffer[-_MAX_LINE:]
    yield buffer


def _error_in(line: bytes) -> str:
    """Docker streams one JSON object a line; an error in the middle comes with status 200."""
    try:
        value = json.loads(line)
    except ValueError:
        return ""
    if not isinstance(value, dict):
        return ""
    detail = value.get("errorDetail")
    return str((detail.get("message") if isinstance(detail, dict) else "") or value.get("error") or "")
