"""What an earlier run left, for a JobSpec that names it (`run/<id>/<kind>`): only of runs the caller may read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from tuneplane_server.domain.checkpoints import FoundCheckpoint
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.references import RunOutputs
from tuneplane_server.features.jobs.service import JobService
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
        attempts = (await self._jobs().attempts([row.id]))[row.id]
        out_dirs = {item.n: self._storage.attempt(row.owner, row.project, row.id, item.n).out for item in attempts}
        return RunOutputs(out_dirs, await self._checkpoints(row.id))
