"""From which checkpoint a paused job, or a run that follows one that is over, goes on; and why not from another."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuneplane.i18n import _, ngettext
from tuneplane.runner.checkpoints import step_of
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.checkpoints import FoundCheckpoint, complete_steps, newest_complete, of_step
from tuneplane_server.features.artifacts.problem_texts import problem_text
from tuneplane_server.features.jobs import repo
from tuneplane_server.features.jobs.tables import AttemptRow, JobRow
from tuneplane_server.storage.layout import StorageRoot
from tuneplane_server.web.problems import ProblemError, refused

# A checkpoint lies in the out dir of an attempt of a run: this one's, or the one it follows.
_PLACE = re.compile(r".*/jobs/(?P<run>[^/]+)/attempts/(?P<attempt>\d+)/out/(?P<path>.+)", re.DOTALL)
SHOWN_STEPS = 20

type CheckpointSource = Callable[[str], Awaitable[Sequence[FoundCheckpoint]]]


@dataclass(frozen=True)
class ResumePoint:
    """A checkpoint by its place: `path` absolute, `run` and `attempt` whose out dir it lies in, `name` below that."""

    path: Path
    run: str
    attempt: int
    name: str
    step: int


def point_at(path: str | None) -> ResumePoint | None:
    """The checkpoint at an absolute path that the ledger keeps; None for none, or for a place outside every out dir."""
    found = _PLACE.fullmatch(path or "")
    if path is None or found is None:
        return None
    return ResumePoint(Path(path), found["run"], int(found["attempt"]), found["path"], step_of(path))


class ResumePoints:
    def __init__(self, database: Database, storage: StorageRoot, checkpoints: CheckpointSource) -> None:
        self._database, self._storage, self._checkpoints = database, storage, checkpoints

    async def default(self, row: JobRow) -> ResumePoint | None:
        """Where it goes on if nobody chooses: its newest complete checkpoint, else where its last attempt started."""
        attempts = await self._attempts(row)
        if row.phase == "queued":
            return point_at(attempts[-1].resume_from)
        found = newest_complete(await self._checkpoints(row.id))
        return point_at(attempts[-1].resume_from) if found is None else self._at(row, found)

    async def choose(self, row: JobRow, step: int | None) -> ResumePoint:
        """The checkpoint of `step`, or the default. Raises `checkpoint-missing` or `checkpoint-incomplete` with what there is."""
        found = await self._checkpoints(row.id)
        chosen = await self.default(row) if step is None else self._of_step(row, found, step)
        if chosen is None and step is not None:  # not its own: perhaps the one of another run that it started from
            started = point_at((await self._attempts(row))[0].resume_from)
            chosen = started if started is not None and started.step == step else None
        if chosen is None:
            none = _("run {id} has no complete checkpoint to go on from").format(id=row.id)
            raise no_checkpoint(row, found, step, "from_step", none, _choices)
        return await self._there(row, found, chosen)

    async def check_start(self, row: JobRow) -> None:
        """Raise `checkpoint-missing` when the checkpoint that a paused job would go on from is gone from the disk."""
        start = await self.default(row)
        if start is not None:
            await self._there(row, await self._checkpoints(row.id), start)

    async def _there(self, row: JobRow, found: Sequence[FoundCheckpoint], point: ResumePoint) -> ResumePoint:
        if await asyncio.to_thread(point.path.is_dir):
            return point
        what = _("the checkpoint of step {step} is not on the disk any more: {path}").format(
            step=point.step, path=point.path
        )
        rest = [item for item in found if self._at(row, item).path != point.path]
        raise refused("checkpoint-missing", what, _choices(row, rest), field="from_step")

    def _of_step(self, row: JobRow, found: Sequence[FoundCheckpoint], step: int) -> ResumePoint | None:
        named = of_step(found, step)
        if named is None:
            return None
        if not named.complete:
            what = _("no run can go on from the checkpoint of step {step} of run {id}: {why}").format(
                step=step, id=row.id, why=problem_text(named.problem) or _("it is not complete")
            )
            raise refused("checkpoint-incomplete", what, _choices(row, found), field="from_step")
        return self._at(row, named)

    def _at(self, row: JobRow, found: FoundCheckpoint) -> ResumePoint:
        out = self._storage.attempt(row.owner, row.project, row.id, found.attempt).out
        return ResumePoint(out / found.path, row.id, found.attempt, found.path, found.step)

    async def _attempts(self, row: JobRow) -> list[AttemptRow]:
        async with self._database.session() as session:
            return await repo.attempts(session, row.id)


def no_checkpoint(
    row: JobRow,
    found: Sequence[FoundCheckpoint],
    step: int | None,
    field: str,
    none: str,
    choices: Callable[[JobRow, Sequence[FoundCheckpoint]], str],
) -> ProblemError:
    """Why there is no checkpoint of `step`, or none at all: `none`, and what is wrong with those there are. `choices`: what to do instead."""
    if step is not None:
        what = _("run {id} has no checkpoint of step {step}").format(id=row.id, step=step)
        return refused("checkpoint-missing", what, choices(row, found), field=field)
    broken = "; ".join(
        _("step {step}: {why}").format(step=item.step, why=problem_text(item.problem) or "?")
        for item in found[-SHOWN_STEPS:]
    )
    return refused("checkpoint-missing", f"{none} ({broken})" if broken else none, choices(row, ()))


def _choices(row: JobRow, found: Sequence[FoundCheckpoint]) -> str:
    """What to do instead: the steps to choose from, or to start anew."""
    steps = complete_steps(found)
    if steps:
        shown = ", ".join(map(str, steps[-SHOWN_STEPS:]))
        return ngettext(
            "the one complete checkpoint is of step {steps}: tp job resume {id} --from-step {last}",
            "complete checkpoints are of steps {steps}: tp job resume {id} --from-step {last}",
            len(steps),
        ).format(steps=shown, id=row.id, last=steps[-1])
    if row.phase == "queued":
        return _("without --from-step it goes on from where it started: tp job resume {id}").format(id=row.id)
    return _("start it anew, from scratch: tp job retry {id}").format(id=row.id)
