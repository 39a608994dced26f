"""What `doctor` says of the runtimes: the registry file is sound, its files are there, and what this executor runs is in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

from tuneplane.contract.refusals import RefusedError
from tuneplane.i18n import _, ngettext
from tuneplane_server.executors.port import Finding
from tuneplane_server.features.runtimes.entries import FILE_ENDINGS, ImageForm, Registry
from tuneplane_server.features.runtimes.registry import RuntimeRegistry
from tuneplane_server.features.runtimes.resolving import setting_name
from tuneplane_server.settings import Settings

MAX_SHOWN = 20


async def registry_findings(
    registry: RuntimeRegistry, settings: Settings, form: ImageForm, frameworks: Mapping[str, str]
) -> list[Finding]:
    """`form`: what the executor runs. `frameworks`: runtime id of the catalog -> its framework. Reads the file as it is now."""
    if registry.file is None:
        return [_none(form, settings, frameworks)] if form in ("sif", "sqsh", "bundle") else []
    try:
        known = await registry.current()
    except RefusedError:
        return await _faults(registry)
    count = len(known.runtimes)
    text = ngettext(
        "runtime registry {file}: {count} runtime", "runtime registry {file}: {count} runtimes", count
    ).format(file=registry.file, count=count)
    found = [*await _faults(registry), Finding("runtime-registry", "info", text)]
    found += await asyncio.to_thread(_absent, known, form, registry.file)
    if form in ("sif", "sqsh", "bundle"):
        found += _without(known, form, settings, frameworks)
    return found


async def _faults(registry: RuntimeRegistry) -> list[Finding]:
    return [
        Finding("runtime-registry", "error", f"{refusal.where()}: {refusal.message}", refusal.hint)
        for refusal in await registry.problems()
    ]


def _absent(registry: Registry, form: ImageForm, file: Path) -> list[Finding]:
    """A warning only: compute nodes may mount what this machine does not."""
    found = []
    for image in registry.images():
        if image.form == form and image.form != "oci" and not Path(image.image).exists():
            text = _("{path} is not there on the console's machine ({where})").format(
                path=image.image, where=f"{file}:{image.line}"
            )
            hint = _("make sure that the machines of the jobs see it at this path, or correct the path")
            found.append(Finding("runtime-missing", "warning", text, hint))
    return found[:MAX_SHOWN]


def _none(form: ImageForm, settings: Settings, frameworks: Mapping[str, str]) -> Finding:
    without = _unnamed(frameworks, settings)
    text = _("no runtime registry file is set: only images of TUNEPLANE_IMAGE_<FRAMEWORK> and of --image can run")
    hint = _("set TUNEPLANE_RUNTIME_REGISTRY_FILE to a YAML file with runtimes: {example}").format(
        example=f"{{{without[0] if without else 'trl-1.16'}: {{{form}: {_example(form)}}}}}"
    )
    return Finding("runtime-registry", "warning" if without else "info", text, hint)


def _without(registry: Registry, form: ImageForm, settings: Settings, frameworks: Mapping[str, str]) -> list[Finding]:
    named = {name for name, runtime in registry.runtimes.items() if form in runtime.images}
    missing = sorted(set(_unnamed(frameworks, settings)) - named)
    if not missing:
        return []
    count = len(frameworks) - len(missing)
    text = ngettext(
        "{count} runtime of the catalog can run here; no {form} is known for: {names}",
        "{count} runtimes of the catalog can run here; no {form} is known for: {names}",
        count,
    ).format(count=count, form=form, names=", ".join(missing[:MAX_SHOWN]))
    hint = _("the page of the runtimes, and tp admin runtime ls, show the line to add for each of them")
    return [Finding("runtime-missing", "info" if count else "warning", text, hint)]


def _unnamed(frameworks: Mapping[str, str], settings: Settings) -> list[str]:
    """Runtime ids that no TUNEPLANE_IMAGE_<FRAMEWORK> gives an image."""
    return sorted(name for name, kind in frameworks.items() if setting_name(kind) not in settings.images)


def frameworks_of(manifests: Iterable[Mapping[str, object]]) -> dict[str, str]:
    """Runtime id -> framework, of the recipes' manifests."""
    found: dict[str, str] = {}
    for manifest in manifests:
        runtime = manifest["runtime"]
        assert isinstance(runtime, dict)
        for version in runtime["versions"].values():
            found[version["runtime_id"]] = str(manifest["framework"])
    return found


def _example(form: ImageForm) -> str:
    endings = FILE_ENDINGS.get(form)
    return f"/path/to/image{endings[0] if endings else ''}"
