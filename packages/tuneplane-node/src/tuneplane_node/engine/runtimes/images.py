"""Bring an image to the machine when it is not there, and say in our words why it cannot be had."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from weakref import WeakValueDictionary

from tuneplane.i18n import _
from tuneplane_node.engine.problems import NodeError
from tuneplane_node.engine.runtimes.container_state import is_no_such_image
from tuneplane_node.engine.runtimes.engine_api import ApiError, EngineApi
from tuneplane_node.engine.runtimes.image_names import split_reference
from tuneplane_node.engine.runtimes.image_pruning import prune_images
from tuneplane_node.engine.runtimes.image_uses import ImageUses
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
    """`pull_seconds` bounds one pull from its start to its end. `uses`: where it is noted what was pulled and used."""

    def __init__(self, api: EngineApi, logins: RegistryLogins, pull_seconds: float, uses: ImageUses) -> None:
        self._api = api
        self._logins = logins
        self._pull_seconds = pull_seconds
        self._uses = uses
        self._pulling: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._in_use: Counter[str] = Counter()

    @asynccontextmanager
    async def using(self, image: str) -> AsyncIterator[None]:
        """Inside, the image is there and is not removed by us. One that is there is never looked up in its registry again."""
        self._in_use[image] += 1
        try:
            await self._ensure(image)
            yield
        finally:
            self._in_use[image] -= 1
            if not self._in_use[image]:
                del self._in_use[image]

    async def prune(self, limit_bytes: int, pinned: Collection[str]) -> list[str]:
        """See `image_pruning`. Raises NodeError."""
        try:
            return await prune_images(self._api, self._uses, self._in_use, limit_bytes, pinned)
        except (ApiError, OSError, KeyError, ValueError, TypeError, AttributeError) as problem:
            raise NodeError("images-not-pruned", str(problem)) from problem

    async def _ensure(self, image: str) -> None:
        if await self._present(image):
            await self._note(image, pulled=False)
            return
        lock = self._pulling.setdefault(image, asyncio.Lock())
        async with lock:  # several jobs with one image pull it once
            if not await self._present(image):
                await self._note(image, pulled=True)
                try:
                    await self._pull(image)
                except NodeError:
                    await self._forget(image)  # who brings it by hand now is its owner
                    raise

    async def _note(self, image: str, *, pulled: bool) -> None:
        """An image of which it is not known that it is ours is never removed: a note that cannot be made stops no job."""
        with suppress(OSError):
            await asyncio.to_thread(self._uses.note, image, pulled=pulled)

    async def _forget(self, image: str) -> None:
        with suppress(OSError):
            await asyncio.to_thread(self._uses.forget, image)

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
