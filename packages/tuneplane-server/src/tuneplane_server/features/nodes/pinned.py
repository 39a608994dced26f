"""Images that nodes keep whatever room they need: those this installation names for its frameworks."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import structlog

from tuneplane.contract.refusals import RefusedError
from tuneplane_server.features.jobs.runtimes import read_registry
from tuneplane_server.settings import Settings

log = structlog.get_logger(__name__)

READ_EVERY_SECONDS = 60.0
MAX_IMAGES = 500


class PinnedImages:
    """TUNEPLANE_IMAGE_* and the runtime registry file, which is read again now and then."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = asyncio.Lock()
        self._read_at: float | None = None
        self._images: tuple[str, ...] = ()

    async def images(self) -> tuple[str, ...]:
        async with self._lock:
            if self._read_at is None or time.monotonic() - self._read_at >= READ_EVERY_SECONDS:
                self._read_at = time.monotonic()
                self._images = await asyncio.to_thread(self._read)
        return self._images

    def _read(self) -> tuple[str, ...]:
        found = {image for image in (*self._settings.images.values(), *self._registered()) if _is_oci(image)}
        return tuple(sorted(found)[:MAX_IMAGES])

    def _registered(self) -> list[str]:
        file = self._settings.runtime_registry_file
        if file is None:
            return []
        try:
            entries = read_registry(file).values()
        except RefusedError as error:  # admission says so to whoever needs it; what was known stays pinned
            log.warning("the runtime registry cannot be read", file=str(file), why=str(error))
            return list(self._images)
        return [image for entry in entries if (image := _image_of(entry)) is not None]


def _image_of(entry: Any) -> str | None:
    found = entry.get("oci") if isinstance(entry, dict) else entry
    return found if isinstance(found, str) else None


def _is_oci(image: str) -> bool:
    return bool(image) and not image.startswith("/")
