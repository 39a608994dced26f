"""Exports: a run of the same recipe and runtime that turns a checkpoint of an earlier one into a Hugging Face directory."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tuneplane.contract.digests import digest_json
from tuneplane.contract.export import ExportResources
from tuneplane.contract.refusals import RefusedError
from tuneplane.i18n import _
from tuneplane.lab.pools import make_pools
from tuneplane.runner.export_layouts import export_layout
from tuneplane_server.domain.checkpoints import FoundCheckpoint, complete_steps, newest_complete, of_step
from tuneplane_server.domain.phases import Phase
from tuneplane_server.features.artifacts.problem_texts import problem_text
from tuneplane_server.features.catalog.service import CatalogService
from tuneplane_server.features.hardware.service import CPU_PROFILE, HardwareService
from tuneplane_server.features.jobs.admission.action import no_export
from tuneplane_server.features.jobs.references import RunSource
from tuneplane_server.features.jobs.resume_points import SHOWN_STEPS, no_checkpoint
from tuneplane_server.features.jobs.service import JobService
from tuneplane_server.features.jobs.steering import Asked, request_of
from tuneplane_server.features.jobs.submission import DryRun, Origin, Submissions
from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.web.problems import ProblemError, refused

MODEL = "model"  # where templates save what a run ends with, below the out dir
GIGABYTE = 1e9


@dataclass(frozen=True)
class ExportWanted:
    """`step` None: the newest complete checkpoint, or the model that the run ended with when it saved none. The rest None: as the
    recipe has it; `dtype` None: as the weights are."""

    step: int | None = None
    merge_lora: bool = False
    dtype: str | None = None
    name: str | None = None
    profile: str | None = None
    cpus: int | None = None
    memory_gb: float | None = None


@dataclass(frozen=True)
class _Source:
    text: str  # as `spec.action.source`
    name: str
    step: int | None
    path: Path


class JobExports:
    def __init__(
        self,
        jobs: JobService,
        submissions: Submissions,
        catalog: CatalogService,
        hardware: HardwareService,
        runs: RunSource,
        checkpoints: Callable[[str], Awaitable[Sequence[FoundCheckpoint]]],
    ) -> None:
        self._jobs, self._submissions, self._catalog, self._hardware = jobs, submissions, catalog, hardware
        self._runs, self._checkpoints = runs, checkpoints

    def offers(self, row: JobRow) -> bool:
        """Whether a run of this recipe can be exported when it is over, whatever it has saved."""
        entry = self._catalog.entry(row.recipe)
        return entry is not None and "export" in entry["manifest"]["lifecycle"] and not row.spec["spec"].get("action")

    async def export(self, asked: Asked, job_id: str, wanted: ExportWanted) -> JobRow:
        """The run that exports; it is its owner's, as one that repeats would be. Raises `checkpoint-missing`, `checkpoint-incomplete`,
        `export-impossible`, and what admission refuses."""
        row = await self._jobs.get(asked.principal, job_id)
        spec, step = await self._spec(asked, row, wanted)
        origin = Origin(row.id, "export", step=step, asked={"export": asdict(wanted)})
        return await self._submissions.submit(request_of(asked, row), spec, origin)

    async def consider(self, asked: Asked, job_id: str, wanted: ExportWanted) -> tuple[dict[str, Any], DryRun]:
        """(the JobSpec, what `export` would say of it and what the job would run). Changes nothing."""
        row = await self._jobs.get(asked.principal, job_id)
        spec, _step = await self._spec(asked, row, wanted)
        owner = request_of(asked, row).owner
        return spec, await self._submissions.dry_run(owner, spec, ingest_address=asked.ingest_address)

    async def _spec(self, asked: Asked, row: JobRow, wanted: ExportWanted) -> tuple[dict[str, Any], int | None]:
        entry = self._catalog.entry(row.recipe)
        if row.spec["spec"].get("action"):
            raise refused("export-impossible", _("run {id} is an export itself").format(id=row.id))
        if entry is None or "export" not in entry["manifest"]["lifecycle"]:
            raise RefusedError([no_export(row.recipe)])
        source = await self._source(asked, row, wanted.step)
        pool = await self._pool(row, entry["manifest"], source, wanted)
        return _jobspec(row, entry, source, pool, wanted), wanted.step

    async def _source(self, asked: Asked, row: JobRow, step: int | None) -> _Source:
        found = await self._checkpoints(row.id)
        chosen = newest_complete(found) if step is None else of_step(found, step)
        outputs = await self._runs.outputs(request_of(asked, row).owner, row.id)
        out_dirs = outputs.out_dirs if outputs is not None else {}
        if chosen is None and step is None and Phase(row.phase).terminal:
            for attempt in sorted(out_dirs, reverse=True):
                path = out_dirs[attempt] / MODEL
                if await asyncio.to_thread(path.is_dir):
                    return _Source(f"run/{row.id}/{MODEL}@attempt={attempt}", MODEL, None, path)
        if chosen is None or chosen.attempt not in out_dirs:
            raise _missing(row, found, step)
        if not chosen.complete:
            what = _("the checkpoint of step {step} of run {id} is not complete: {why}").format(
                step=step, id=row.id, why=problem_text(chosen.problem) or "?"
            )
            raise refused("checkpoint-incomplete", what, _choices(row, found), field="step")
        text = f"run/{row.id}/checkpoint@step={chosen.step},attempt={chosen.attempt}"
        return _Source(text, f"step-{chosen.step}", chosen.step, out_dirs[chosen.attempt] / chosen.path)

    async def _pool(
        self, row: JobRow, manifest: dict[str, Any], source: _Source, wanted: ExportWanted
    ) -> dict[str, Any]:
        """One machine: what was asked for, else CPUs and memory after the recipe and the size of the weights."""
        profiles = {item.name: item for item in await self._hardware.profiles()}
        needs = ExportResources.model_validate(manifest["lifecycle_resources"].get("export") or {})
        most = profiles.get(CPU_PROFILE)
        weights = await asyncio.to_thread(_bytes_of, source.path, (row.spec["spec"].get("model") or {}).get("base"))
        memory = max(needs.memory_gb, float(math.ceil(2.2 * weights / GIGABYTE) + 1))
        if most is not None and most.memory_gb:  # asking for more than there is would wait for ever
            memory = min(memory, most.memory_gb)
        cpus = min(needs.cpus, int(most.cpus)) if most is not None and most.cpus else needs.cpus
        on_cpu = (wanted.profile or CPU_PROFILE).partition(":")[0].casefold() == CPU_PROFILE
        pools, refusals = make_pools(
            [wanted.profile or CPU_PROFILE],
            [vars(item) for item in profiles.values()],
            cpus=wanted.cpus or (max(1, cpus) if on_cpu else None),
            memory_gb=wanted.memory_gb or (memory if on_cpu else None),
        )
        if refusals:
            raise RefusedError(refusals)
        return pools.pools[0]


def _jobspec(
    row: JobRow, entry: dict[str, Any], source: _Source, pool: dict[str, Any], wanted: ExportWanted
) -> dict[str, Any]:
    """What the run was, without its configuration and data: nothing is trained, and its recipe may have moved on since."""
    before, metadata = row.spec["spec"], row.spec["metadata"]
    name = wanted.name or source.name + ("-merged" if wanted.merge_lora else "")
    action = {"kind": "export", "source": source.text, "name": name, "merge_lora": wanted.merge_lora}
    if wanted.dtype is not None:
        action["dtype"] = wanted.dtype
    manifest = entry["manifest"]
    kept = {key: before[key] for key in ("framework", "model", "env", "secrets", "priority") if key in before}
    longest = (before.get("limits") or {}).get("max_duration")
    return {
        **row.spec,
        "metadata": {**metadata, "display_name": f"{row.display_name or row.experiment} → {name}"[:200]},
        "spec": {
            **kept,
            "recipe": {"name": row.recipe, "version": manifest["version"], "digest": entry["digest"]},
            "resources": {"pools": [pool]},
            "action": action,
            **({"limits": {"max_duration": longest}} if longest else {}),
        },
        "provenance": {**row.spec["provenance"], "config_digest": digest_json({})},
    }


def _bytes_of(path: Path, base: str | None) -> int:
    """Of the weights, and of the base model's where that is a directory here."""
    found = export_layout(str(path)).size
    folder = Path(base) if base and base.startswith("/") else None
    try:
        return found + (sum(file.stat().st_size for file in folder.glob("*.safetensors")) if folder is not None else 0)
    except OSError:
        return found


def _missing(row: JobRow, found: Sequence[FoundCheckpoint], step: int | None) -> ProblemError:
    none = _("run {id} has no complete checkpoint to export").format(id=row.id)
    return no_checkpoint(row, found, step, "step", none, _choices)


def _choices(row: JobRow, found: Sequence[FoundCheckpoint]) -> str:
    steps = complete_steps(found)
    if steps:
        shown = ", ".join(map(str, steps[-SHOWN_STEPS:]))
        return _("complete checkpoints: {steps}; for the newest leave --step out").format(steps=shown)
    if not Phase(row.phase).terminal:
        return _("checkpoints are known when an attempt is over: tp job wait {id}").format(id=row.id)
    return _("tp job artifacts {id} shows what the run has saved").format(id=row.id)
