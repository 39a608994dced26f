"""Images that nodes keep whatever room they need: those this installation names for its frameworks."""

from __future__ import annotations

from tuneplane.contract.refusals import RefusedError
from tuneplane_server.features.runtimes.registry import RuntimeRegistry
from tuneplane_server.settings import Settings

SOON_ENOUGH_SECONDS = 60.0
MAX_IMAGES = 500


class PinnedImages:
    """TUNEPLANE_IMAGE_* and the runtime registry, in the words in which jobs ask for them."""

    def __init__(self, settings: Settings, registry: RuntimeRegistry) -> None:
        self._settings, self._registry = settings, registry

    async def images(self) -> tuple[str, ...]:
        found = {image for image in self._settings.images.values() if not image.startswith("/")}
        try:
            registry = await self._registry.current(SOON_ENOUGH_SECONDS)
        except RefusedError:  # a console does not start with such a file
            return tuple(sorted(found)[:MAX_IMAGES])
        found |= {image.image for image in registry.images() if image.form == "oci"}
        return tuple(sorted(found)[:MAX_IMAGES])
