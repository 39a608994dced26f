"""Remove images that we pulled when they take more space than they may, those that were not used for the longest time first.

What is removed: only what we pulled ourselves, what no container has, what is not pinned and what was not used in the last hour. The
engine itself refuses to remove an image that a container has, running or not; it is never forced.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from tuneplane_node.engine.runtimes.container_state import is_no_such_image
from tuneplane_node.engine.runtimes.engine_api import ApiError, EngineApi
from tuneplane_node.engine.runtimes.image_names import plain_reference
from tuneplane_node.engine.runtimes.image_uses import ImageUse, ImageUses

REST_SECONDS = 3600.0
REMOVE_SECONDS = 120.0
MAX_REMOVED = 50


@dataclass(frozen=True)
class _Stored:
    """An image as the engine lists it. `size` in bytes, layers that it shares with others included."""

    id: str
    names: frozenset[str]
    size: int


async def prune_images(
    api: EngineApi,
    uses: ImageUses,
    in_use: Collection[str],
    limit_bytes: int,
    pinned: Collection[str],
    clock: Callable[[], float] = time.time,
) -> list[str]:
    """Bring what we pulled below `limit_bytes`; the references that were removed. `in_use`: those that a launch needs just now.
    Raises ApiError, NodeError or OSError when it cannot be told what is there: nothing is removed then."""
    noted = [use for use in await asyncio.to_thread(uses.all) if use.pulled]
    stored = _by_name(await api.call("GET", "/images/json"))
    for use in noted:
        if plain_reference(use.reference) not in stored and clock() - use.used > REST_SECONDS:
            await asyncio.to_thread(uses.forget, use.reference)  # somebody else removed it
    ours = [(use, stored[plain_reference(use.reference)]) for use in noted if plain_reference(use.reference) in stored]
    kept = {
        stored[name].id for name in map(plain_reference, [*pinned, *in_use]) if name in stored
    } | await _of_containers(api)
    taken = sum({image.id: image.size for _use, image in ours}.values())
    removed: list[str] = []
    for use, image in ours:
        if taken <= limit_bytes or len(removed) >= MAX_REMOVED:
            break
        if image.id in kept or clock() - use.used < REST_SECONDS:
            continue
        if await _remove(api, uses, use):
            removed.append(use.reference)
            others = [other for other, same in ours if same.id == image.id and other.reference not in removed]
            taken -= 0 if others else image.size
    return removed


async def _remove(api: EngineApi, uses: ImageUses, use: ImageUse) -> bool:
    try:
        await api.call("DELETE", f"/images/{use.reference}", seconds=REMOVE_SECONDS)
    except ApiError as problem:
        if not is_no_such_image(problem.message):
            return False  # a container has it after all
    await asyncio.to_thread(uses.forget, use.reference)
    return True


async def _of_containers(api: EngineApi) -> set[str]:
    """Ids of the images of every container of this machine, ours or not, running or not."""
    return {
        str(entry.get("ImageID") or "") for entry in _list(await api.call("GET", "/containers/json", params={"all": 1}))
    }


def _by_name(answer: Any) -> dict[str, _Stored]:
    found: dict[str, _Stored] = {}
    for entry in _list(answer):
        names = [str(name) for key in ("RepoTags", "RepoDigests") for name in entry.get(key) or ()]
        image = _Stored(str(entry["Id"]), frozenset(map(plain_reference, names)), int(entry.get("Size") or 0))
        found |= dict.fromkeys(image.names, image)
    return found


def _list(answer: Any) -> list[dict[str, Any]]:
    """No list is no empty list."""
    if not isinstance(answer, list):
        raise ApiError(0, f"{type(answer).__name__} in place of a list")
    return answer
