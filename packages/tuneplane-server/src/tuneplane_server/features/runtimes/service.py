"""Which runtimes there are, what each is here, and why one cannot run here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane_server.executors.port import Executor
from tuneplane_server.features.catalog.service import CatalogService
from tuneplane_server.features.runtimes.entries import ImageForm, RegisteredImage
from tuneplane_server.features.runtimes.registry import RuntimeRegistry
from tuneplane_server.features.runtimes.resolving import Known, ResolvedRuntime, resolve_runtime
from tuneplane_server.settings import Settings

# How long the storage may take to say which files are there; then nothing is said of that.
LONGEST_LOOK_SECONDS = 5.0


@dataclass
class CatalogRuntime:
    """What the recipes say of a runtime. `version`: a recipe's runtime entry (contract/recipe.RuntimeVersion)."""

    framework: str
    version: Mapping[str, Any]
    methods: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class SeenImage:
    """`present`: whether its path is there on this console's machine; None where it is no path, or nobody can tell."""

    registered: RegisteredImage
    present: bool | None


@dataclass(frozen=True)
class SeenRuntime:
    """`here`: what this console would run for it, or why it cannot."""

    runtime_id: str
    methods: tuple[str, ...]
    images: tuple[SeenImage, ...]
    here: ResolvedRuntime | Refusal


@dataclass(frozen=True)
class Overview:
    """`form`: what this console's executor runs. `problems`: what is wrong with the registry file as it is now."""

    executor: str
    form: ImageForm
    file: Path | None
    problems: tuple[Refusal, ...]
    runtimes: tuple[SeenRuntime, ...]


class RuntimesService:
    def __init__(
        self, settings: Settings, catalog: CatalogService, executor: Executor, registry: RuntimeRegistry
    ) -> None:
        self._settings, self._catalog, self._executor, self._registry = settings, catalog, executor, registry

    async def overview(self) -> Overview:
        """Every runtime that a recipe or the registry names, by id."""
        form = self._executor.capabilities().image_form
        known = Known(self._settings, await self._registry.current(), form)
        of_catalog = catalog_runtimes(
            (method, entry["manifest"])
            for method in self._catalog.methods()
            if (entry := self._catalog.entry(method)) is not None
        )
        present = await self._present(known)
        seen = await asyncio.to_thread(_seen, known, of_catalog, present)
        problems = tuple(await self._registry.problems())
        return Overview(self._executor.name, form, self._registry.file, problems, tuple(seen))

    async def _present(self, known: Known) -> Mapping[str, bool]:
        paths = {image.image for image in known.registry.images() if image.form != "oci"}
        try:
            async with asyncio.timeout(LONGEST_LOOK_SECONDS):
                return await asyncio.to_thread(lambda: {path: Path(path).exists() for path in sorted(paths)})
        except OSError:  # a TimeoutError too
            return {}


def catalog_runtimes(manifests: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, CatalogRuntime]:
    """`manifests`: (method, manifest). Runtime id -> what the recipes say of it; versions that are not offered any more left out."""
    found: dict[str, CatalogRuntime] = {}
    for method, manifest in manifests:
        for version in manifest["runtime"]["versions"].values():
            if version["status"] != "sunset":
                runtime = found.setdefault(version["runtime_id"], CatalogRuntime(manifest["framework"], version))
                runtime.methods.append(method)
    return found


def _seen(known: Known, of_catalog: Mapping[str, CatalogRuntime], present: Mapping[str, bool]) -> Iterable[SeenRuntime]:
    found = []
    for runtime_id in sorted({*of_catalog, *known.registry.runtimes}):
        registered = known.registry.runtimes.get(runtime_id)
        images = registered.images.values() if registered is not None else ()
        ours = of_catalog.get(runtime_id) or CatalogRuntime("", {"runtime_id": runtime_id})
        found.append(
            SeenRuntime(
                runtime_id,
                tuple(sorted(ours.methods)),
                tuple(SeenImage(image, present.get(image.image)) for image in images),
                _here(runtime_id, ours, known),
            )
        )
    return found


def _here(runtime_id: str, runtime: CatalogRuntime, known: Known) -> ResolvedRuntime | Refusal:
    try:
        return resolve_runtime(runtime.framework, runtime.version, known, runtime_id=runtime_id)
    except RefusedError as error:
        return error.refusals[0]
