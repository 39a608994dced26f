"""The runtimes of the catalog as Python environments for process mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.recipes import index
from tuneplane_server.features.runtimes.resolving import environment_usable
from tuneplane_server.settings import Settings

DEFAULT_PYTHON = "3.11"


@dataclass
class CatalogRuntime:
    runtime_id: str
    python: str
    requires: list[str]
    built: bool
    methods: list[str] = field(default_factory=list)


def listing(settings: Settings) -> list[CatalogRuntime]:
    """Every runtime that a recipe of the catalog names, by id."""
    found: dict[str, CatalogRuntime] = {}
    for method in index.methods():
        for version in index.entry(method)["manifest"]["runtime"]["versions"].values():
            runtime_id = version["runtime_id"]
            if runtime_id not in found:
                found[runtime_id] = CatalogRuntime(
                    runtime_id,
                    version.get("python") or DEFAULT_PYTHON,
                    version.get("requires") or [],
                    environment_usable(settings.runtimes / runtime_id),
                )
            found[runtime_id].methods.append(method)
    return [found[name] for name in sorted(found)]


def build(settings: Settings, runtime_id: str, progress: Callable[[str], None], *, rebuild: bool = False) -> Path:
    """Build (or find built) the environment; returns its path. Raises `RefusedError` and the engine's `NodeError`."""
    from tuneplane_node.engine.environments import build_environment

    known = {item.runtime_id: item for item in listing(settings)}
    wanted = known.get(runtime_id)
    if wanted is None:
        names = ", ".join(known)
        message = _("no recipe of this server has the runtime “{runtime_id}”").format(runtime_id=runtime_id[:80])
        raise RefusedError([Refusal("runtime-unresolved", message, _("there are: {names}").format(names=names))])
    if not wanted.requires:
        message = _("the runtime {runtime_id} needs no environment: any Python of the machine will do")
        raise RefusedError([Refusal("runtime-unresolved", message.format(runtime_id=runtime_id))])
    return build_environment(settings.runtimes, runtime_id, wanted.requires, wanted.python, progress, rebuild=rebuild)
