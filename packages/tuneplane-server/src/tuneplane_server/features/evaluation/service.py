"""Evaluations: read the report of a run whose attempt has ended, show it, list them, compare several."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from tuneplane.contract.names import is_run_id, parse_run_ref
from tuneplane.i18n import _
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.evaluation import Row, compare
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.evaluation import repo
from tuneplane_server.features.evaluation.kept import gates_of, heads_of, main_tasks, report_of, score_of
from tuneplane_server.features.evaluation.place import Place
from tuneplane_server.features.evaluation.problems import problem_view
from tuneplane_server.features.evaluation.reading import Found, read_report
from tuneplane_server.features.evaluation.tables import EvaluationRow
from tuneplane_server.features.jobs.resume_points import point_at
from tuneplane_server.web.problems import ProblemError, not_found, refused

if TYPE_CHECKING:
    from tuneplane_server.features.jobs.tables import JobRow

log = structlog.get_logger(__name__)

MOST_COMPARED = 10
CONFIDENCE = 0.95

type Rows = list[EvaluationRow]  # inside the service, `list` is its own method


@dataclass(frozen=True)
class Comparison:
    """`runs`: the base first; `rows`: a figure of a task each, with a cell for every run in this order."""

    confidence: float
    runs: Sequence[EvaluationRow]
    rows: Sequence[Row]


class EvaluationService:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    async def register(self, job: JobRow, out_dir: Path) -> None:
        """Read the report that the job's attempt left, if it left one; may be repeated. A report that is no use is kept as what is
        wrong with it. Raises `OSError` when the storage cannot be asked.
        """
        found = await asyncio.to_thread(read_report, out_dir, job.id)
        async with self._database.begin() as session:
            if found is None:
                await repo.remove(session, job.id, job.attempt)
                return
            await repo.replace(session, self._row(job, found))
        if found.problem is not None:
            log.warning("an evaluation report cannot be used", job=job.id, attempt=job.attempt, why=found.problem.code)

    async def of_run(self, job: JobRow, attempt: int | None = None) -> EvaluationRow:
        """The report of a run that the caller was already shown. Raises `not-found` when there is none."""
        async with self._database.session() as session:
            row = await repo.of_run(session, job.id, attempt)
        if row is None:
            raise _none(job)
        return row

    async def newest(self, job_id: str) -> EvaluationRow | None:
        """What the newest attempt that wrote a report left, of a run that the caller was already shown."""
        async with self._database.session() as session:
            return await repo.of_run(session, job_id, None)

    async def attempts(self, job_id: str) -> Rows:
        """What each attempt of a run left, without the reports themselves; of a run that the caller was already shown."""
        async with self._database.session() as session:
            return await repo.attempts(session, job_id)

    async def list(
        self,
        principal: Principal,
        *,
        owner: str | None = None,
        project: str | None = None,
        model: str | None = None,
        before: Place | None = None,
        limit: int = 50,
    ) -> tuple[Rows, Place | None]:
        """(evaluations newest first, without their reports; where to go on or None at the end)."""
        async with self._database.session() as session:
            rows = await repo.list_readable(
                session, principal, owner=owner, project=project, model=model, before=before, limit=limit + 1
            )
        more = Place(rows[limit - 1].job_id, rows[limit - 1].attempt) if len(rows) > limit else None
        return rows[:limit], more

    async def compare(self, jobs: Sequence[JobRow], confidence: float = CONFIDENCE) -> Comparison:
        """The first is the base. Raises `request-invalid` for fewer than two or too many, `not-found` and `evaluation-unreadable`."""
        if not 2 <= len(jobs) <= MOST_COMPARED:
            message = _("compare 2 to {most} runs").format(most=MOST_COMPARED)
            raise refused("request-invalid", message, field="run")
        rows = [await self.of_run(job) for job in jobs]
        reports = [report_of(_readable(row)) for row in rows]
        return Comparison(confidence, rows, await asyncio.to_thread(compare, reports, confidence))

    def _row(self, job: JobRow, found: Found) -> EvaluationRow:
        kept = found.report
        ref, run, step = _model(job, kept)
        return EvaluationRow(
            job_id=job.id,
            attempt=job.attempt,
            owner_id=job.owner_id,
            owner=job.owner,
            project=job.project,
            experiment=job.experiment,
            display_name=job.display_name,
            recipe=job.recipe,
            model_ref=ref,
            model_run=run,
            model_step=step,
            model_name=kept["model"]["name"] if kept else None,
            runner=kept["runner"] if kept else None,
            tasks=len(main_tasks(kept)) if kept else 0,
            score=score_of(kept) if kept else None,
            heads=heads_of(kept) if kept else [],
            gates=gates_of(job.spec["spec"].get("evaluation") or {}, kept),
            problem=found.problem.to_json() if found.problem else None,
            report=kept,
            created_at=self._clock.now(),
        )


def _model(job: JobRow, kept: dict[str, Any] | None) -> tuple[str | None, str | None, int | None]:
    """(the reference of the JobSpec, the run it names, the step of its checkpoint). The path that the job gives tells the step where
    the reference leaves it open, but never another run: the reference went through admission, the path comes out of the job.
    """
    model = job.spec["spec"].get("model") or {}
    ref: str | None = model.get("init_from") or model.get("base")
    named = None if ref is None else parse_run_ref(ref)
    if named is None:
        return ref, None, None
    point = point_at(kept["model"]["name"]) if kept else None
    seen = point.step if point is not None and point.run == named.run and named.kind == "checkpoint" else None
    return ref, named.run, seen if named.step is None else named.step


def _readable(row: EvaluationRow) -> dict[str, Any]:
    problem = problem_view(row.problem)
    if row.report is None or problem is not None:
        why = problem.text if problem else ""
        message = _("the report of run {id} cannot be used: {why}").format(id=row.job_id, why=why)
        raise refused("evaluation-unreadable", message, problem.hint if problem else "", field="run")
    return row.report


def _none(job: JobRow) -> ProblemError:
    if not job.finished_at:
        hint = _("it is still {phase}; the report is read when it has ended").format(phase=job.phase)
    else:
        hint = _("evaluate it with: tp eval {id}").format(id=job.id)
    return not_found(_("run {id} has no evaluation report").format(id=job.id), hint)


def check_model(text: str) -> str:
    """A filter for a model: as it stands, a run's id in lower case."""
    return text.lower() if is_run_id(text.lower()) else text
