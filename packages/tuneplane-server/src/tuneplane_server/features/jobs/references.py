"""From the names in a JobSpec (data, volumes, models, runs) to paths, each proved to be there and the caller's to read.

In containers only directories of the storage root and those of TUNEPLANE_CONTAINER_MOUNTS may be named: a path of the
host would otherwise be a way around every permission. Process mode isolates nothing, so any readable path will do. Disks are asked
in threads: one that hangs delays its own submission and nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tuneplane.contract.jobspec import DataRef, JobSpec
from tuneplane.contract.names import RunRef, parse_hub_ref, parse_owned_ref, parse_run_ref
from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane.runner.export_layouts import ExportLayout, export_layout
from tuneplane_server.domain.checkpoints import FoundCheckpoint, newest_complete
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.artifacts.problem_texts import problem_text
from tuneplane_server.storage.layout import StorageRoot

_SHARED_ROOMS = ("volumes", "datasets", "cache")


@dataclass(frozen=True)
class FoundExport:
    """A finished export. `attempt` 0: of a run that exported a checkpoint of this one."""

    attempt: int
    path: Path
    step: int | None


@dataclass(frozen=True)
class RunOutputs:
    """What an earlier run left: its attempts' out dirs, its checkpoints, and the exports of those, the newest last."""

    out_dirs: dict[int, Path]
    checkpoints: Sequence[FoundCheckpoint]
    exports: Sequence[FoundExport] = ()


class RunSource(Protocol):
    async def outputs(self, principal: Principal, job_id: str) -> RunOutputs | None:
        """None when there is no such run, or it is not the caller's to read."""
        ...


@dataclass(frozen=True)
class ExportSource:
    """The checkpoint that a job exports: where it lies, whose it is, and in which form its weights are."""

    path: Path
    run: str
    step: int | None
    layout: ExportLayout


@dataclass(frozen=True)
class ResolvedReferences:
    """Paths as the job sees them; models from a hub keep their name. `read_only`: what must be mounted for them."""

    train: str | None = None
    validation: str | None = None
    base: str | None = None
    init: str | None = None
    read_only: tuple[Path, ...] = ()
    missing: tuple[Refusal, ...] = ()
    export: ExportSource | None = None


class _Resolver:
    """One pass over a JobSpec, gathering paths and refusals."""

    def __init__(
        self, storage: StorageRoot, principal: Principal, runs: RunSource, open_roots: Sequence[Path] | None
    ) -> None:
        self._storage, self._principal, self._runs, self._open_roots = storage, principal, runs, open_roots
        self.mounts: list[Path] = []
        self.missing: list[Refusal] = []

    async def data(self, ref: DataRef | None, field: str) -> str | None:
        if ref is None:
            return None
        if ref.path is not None:
            return await self._path(ref.path, "data-missing", f"{field}.path")
        named = parse_owned_ref(ref.dataset or "")
        assert named is not None
        assert named.version is not None
        path = self._storage.dataset(named.owner, named.name, named.version)
        if not await asyncio.to_thread(path.exists):
            self._miss("data-missing", _("there is no dataset {name}").format(name=ref.dataset), f"{field}.dataset")
            return None
        return self._mount(path)

    async def model(self, text: str | None, field: str) -> str | None:
        if text is None:
            return None
        if text.startswith("/"):
            return await self._path(text, "model-missing", field)
        run = parse_run_ref(text)
        if run is not None:
            return await self._run(run, text, field)
        hub = parse_hub_ref(text)
        assert hub is not None
        if hub.hub == "tp":
            self._miss("model-missing", _("there is no model {name} on this console").format(name=text), field)
            return None
        return text.partition(":")[2]

    async def volumes(self, names: Iterable[str]) -> None:
        for index, name in enumerate(names):
            ref = parse_owned_ref(name)
            assert ref is not None
            path = self._storage.volume(ref.owner, ref.name)
            if await asyncio.to_thread(path.is_dir):
                self._mount(path)
            else:
                message = _("there is no volume {name}").format(name=name)
                self._miss("data-missing", message, f"spec.data.volumes.{index}")

    async def export(self, text: str, field: str) -> ExportSource | None:
        """Also the run's out dir is mounted: an adapter may name a base model in it."""
        ref = parse_run_ref(text)
        assert ref is not None
        found = await self._output(ref, text, field)
        if found is None:
            return None
        outputs, path = found
        self.mounts += [out for out in outputs.out_dirs.values() if path.is_relative_to(out)] or [path]
        layout = await asyncio.to_thread(export_layout, str(path))
        if layout.layout is None:
            why = problem_text(layout.problem)
            message = _("{text} cannot be exported: {why}").format(text=text, why=why)
            self._miss("export-impossible", message, field)
            return None
        return ExportSource(path, ref.run, ref.step, layout)

    async def _run(self, ref: RunRef, text: str, field: str) -> str | None:
        found = await self._output(ref, text, field)
        return None if found is None else self._mount(found[1])

    async def _output(self, ref: RunRef, text: str, field: str) -> tuple[RunOutputs, Path] | None:
        outputs = await self._runs.outputs(self._principal, ref.run)
        if outputs is None:
            self._miss("model-missing", _("there is no run {run}").format(run=ref.run), field)
            return None
        path = await asyncio.to_thread(_FINDERS.get(ref.kind, _model_path), outputs, ref)
        if path is None:
            self._miss(
                "model-missing",
                _("the run {run} has no {text} that is complete").format(run=ref.run, text=text.rpartition("/")[2]),
                field,
            )
            return None
        return outputs, path

    async def _path(self, text: str, code: str, field: str) -> str | None:
        path = Path(text)
        try:
            real = await asyncio.to_thread(path.resolve, strict=True)
        except (OSError, RuntimeError):
            self._miss(
                code,
                _("there is no {path} on the console's machine").format(path=text),
                _("the job sees the files of that machine, not those of yours: bring it there, or correct the path"),
                field,
            )
            return None
        if self._open_roots is None:
            return text
        if any(real.is_relative_to(root) for root in self._open_roots):
            return text  # mounted in every container by the administrator
        if await asyncio.to_thread(self._own, real):
            return self._mount(path)
        self._miss(
            code,
            _("runs may not see {path}").format(path=text),
            _("put it into a volume or a dataset, or ask the administrator to list it in TUNEPLANE_CONTAINER_MOUNTS"),
            field,
        )
        return None

    def _own(self, real: Path) -> bool:
        """Whether a path of the storage root is shared, or below the caller's own projects."""
        root = self._storage.root.resolve()
        parts = real.relative_to(root).parts if real.is_relative_to(root) else ()
        if len(parts) > 1 and parts[0] in _SHARED_ROOMS:
            return True
        return (
            len(parts) > 2
            and parts[0] == "projects"
            and (parts[1] == self._principal.username or self._principal.acts_as_admin)
        )

    def _mount(self, path: Path) -> str:
        self.mounts.append(path)
        return str(path)

    def _miss(self, code: str, message: str, hint: str, field: str = "") -> None:
        if not field:
            hint, field = "", hint
        self.missing.append(Refusal(code, message, hint, field=field))


async def resolve_references(
    spec: JobSpec,
    storage: StorageRoot,
    principal: Principal,
    runs: RunSource,
    open_roots: Sequence[Path] | None,
) -> ResolvedReferences:
    """`open_roots`: directories that every container sees; None when jobs are plain processes, which see everything."""
    resolver = _Resolver(storage, principal, runs, open_roots)
    data, model = spec.spec.data, spec.spec.model
    train = await resolver.data(data.train, "spec.data.train")
    validation = await resolver.data(data.validation, "spec.data.validation")
    base = await resolver.model(model.base, "spec.model.base")
    init = await resolver.model(model.init_from, "spec.model.init_from")
    await resolver.volumes(data.volumes)
    action = spec.spec.action
    export = None if action is None else await resolver.export(action.source, "spec.action.source")
    return ResolvedReferences(train, validation, base, init, tuple(resolver.mounts), tuple(resolver.missing), export)


def _checkpoint_path(outputs: RunOutputs, ref: RunRef) -> Path | None:
    wanted = [
        item
        for item in outputs.checkpoints
        if (ref.step is None or item.step == ref.step) and (ref.attempt is None or item.attempt == ref.attempt)
    ]
    found = newest_complete(wanted)
    return None if found is None else outputs.out_dirs[found.attempt] / found.path


def _model_path(outputs: RunOutputs, ref: RunRef) -> Path | None:
    """The finished model: a directory of the kind's name below the out dir of the newest attempt that has one."""
    for attempt in sorted(outputs.out_dirs, reverse=True):
        path = outputs.out_dirs[attempt] / ref.kind
        if (ref.attempt is None or ref.attempt == attempt) and path.is_dir():
            return path
    return None


def _export_path(outputs: RunOutputs, ref: RunRef) -> Path | None:
    wanted = [
        item
        for item in outputs.exports
        if (ref.step is None or item.step == ref.step) and (ref.attempt is None or item.attempt == ref.attempt)
    ]
    return wanted[-1].path if wanted else None


_FINDERS = {"checkpoint": _checkpoint_path, "export": _export_path}
