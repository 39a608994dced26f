"""What an earlier run left, for a JobSpec that names it (`run/<id>/<kind>`): only of runs the caller may read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tuneplane.adapters.export import EXPORTS, RECORD
from tuneplane_server.domain.checkpoints import FoundCheckpoint
from tuneplane_server.domain.phases import Phase
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.references import FoundExport, RunOutputs
from tuneplane_server.features.jobs.service import JobService
from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.storage.layout import StorageRoot
from tuneplane_server.web.problems import ProblemError


class RunOutputsOfJobs:
    """`jobs` and `checkpoints` are asked late: the jobs service itself is made with this."""

    def __init__(
        self,
        jobs: Callable[[], JobService],
        storage: StorageRoot,
        checkpoints: Callable[[str], Awaitable[Sequence[FoundCheckpoint]]],
    ) -> None:
        self._jobs, self._storage, self._checkpoints = jobs, storage, checkpoints

    async def outputs(self, principal: Principal, job_id: str) -> RunOutputs | None:
        try:
            row = await self._jobs().get(principal, job_id)
        except ProblemError:
            return None
        out_dirs = await self._out_dirs(row)
        places = [(0, out) for out in await self._exporters(principal, row.id)] + sorted(out_dirs.items())
        exports = await asyncio.to_thread(_exports, places)
        return RunOutputs(out_dirs, await self._checkpoints(row.id), exports)

    async def _out_dirs(self, row: JobRow) -> dict[int, Path]:
        attempts = (await self._jobs().attempts([row.id]))[row.id]
        return {item.n: self._storage.attempt(row.owner, row.project, row.id, item.n).out for item in attempts}

    async def _exporters(self, principal: Principal, job_id: str) -> list[Path]:
        """The out dirs of the runs that have exported a checkpoint of this one, in the order of their making."""
        found: list[Path] = []
        for follower in await self._jobs().followers(principal, job_id):
            if follower.origin_kind == "export" and follower.phase == Phase.SUCCEEDED:
                found += [out for _n, out in sorted((await self._out_dirs(follower)).items())]
        return found


def _exports(places: Sequence[tuple[int, Path]]) -> list[FoundExport]:
    """A directory under its own name is whole (`adapters/export_start.py` renames it last); what is being made begins with a dot."""
    return [
        FoundExport(attempt, record.parent, _step(record))
        for attempt, out in places
        for record in sorted((out / EXPORTS).glob(f"[!.]*/{RECORD}"))
    ]


def _step(record: Path) -> int | None:
    try:
        step = json.loads(record.read_bytes()).get("step")
    except (OSError, ValueError, AttributeError):
        return None
    return step if isinstance(step, int) else None
