"""Sweeps as people ask for them: make one, look, cancel, resume. What goes on of itself is `progress.py`'s."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane.contract.digests import digest_json
from tuneplane.contract.names import is_run_id
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.contract.sweep import SweepSpec
from tuneplane.i18n import _
from tuneplane.sweeps.check import check_sweep, objective_of, trials_of, typed
from tuneplane.sweeps.space import space_of
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.sweeps import ACTIVE, SweepState, TrialState, again
from tuneplane_server.features.accounts.principal import SCOPES, Principal
from tuneplane_server.features.audit.service import AuditEntry, AuditService
from tuneplane_server.features.catalog.service import CatalogService
from tuneplane_server.features.jobs.admission.context import AdmissionContext
from tuneplane_server.features.jobs.jobspec_input import parse_jobspec, too_deep
from tuneplane_server.features.jobs.outlook import approval_view
from tuneplane_server.features.jobs.steering import Asked
from tuneplane_server.features.jobs.submission import MAX_KEY, Submissions
from tuneplane_server.features.projects.service import ProjectService
from tuneplane_server.features.sweeps import repo
from tuneplane_server.features.sweeps.tables import SweepRow, TrialRow
from tuneplane_server.features.sweeps.trial_spec import example, planned_variant, trial_spec
from tuneplane_server.features.sweeps.whole import Whole, check_whole, most_at_once
from tuneplane_server.wakeups import Wakeups
from tuneplane_server.web.form_words import form_words
from tuneplane_server.web.problems import ProblemError, not_found, refused

NO_SWEEP = "0" * 16  # stands in labels for the id of a sweep that is not made
MOST_ACTIVE = 20  # sweeps of one user at once
MAX_REFUSALS = 100


@dataclass(frozen=True)
class Considered:
    """A sweep that was asked for, and all that is wrong with it. `sweep`: completed; empty when it has no right form."""

    sweep: dict[str, Any]
    job: dict[str, Any]
    refusals: list[Refusal]
    context: AdmissionContext | None = None
    total: int = 0
    max_parallel: int = 1
    objective: dict[str, str] | None = None

    @property
    def approval(self) -> dict[str, Any] | None:
        return None if self.context is None or self.refusals else approval_view(self.context)

    def variants(self) -> list[dict[str, Any]]:
        """Those that are known before the first trial has begun: all but those of a Bayesian search."""
        if not self.total:
            return []
        space, method = space_of(self.sweep["params"]), self.sweep["method"]
        found = (planned_variant(method, space, self.sweep["seed"], number, self.total) for number in range(self.total))
        return [params for params in found if params is not None]


class SweepService:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        catalog: CatalogService,
        submissions: Submissions,
        projects: ProjectService,
        audit: AuditService,
        wakeups: Wakeups,
    ) -> None:
        self._database, self._clock, self._catalog = database, clock, catalog
        self._submissions, self._projects = submissions, projects
        self._audit, self._wakeups = audit, wakeups

    # --- make -----------------------------------------------------------------------------------------------------

    async def create(self, asked: Asked, raw: Any) -> SweepRow:
        """Admit the sweep as a whole and begin it. Raises `RefusedError` with every refusal; nothing is written then.

        The same key of the same user gets the first answer again; with another sweep it is refused.
        """
        if asked.key is not None and not 0 < len(asked.key) <= MAX_KEY:
            raise refused("request-invalid", _("an Idempotency-Key has 1 to 200 characters"), field="Idempotency-Key")
        digest = _digest(raw)
        first = await self._first_answer(asked, digest)
        if first is not None:
            return first
        found = await self.consider(asked.principal, raw, ingest_address=asked.ingest_address, dry_run=False)
        if found.refusals:
            raise RefusedError(found.refusals)
        try:
            async with self._database.begin() as session:
                row = await self._insert(session, asked, found, digest)
        except IntegrityError:  # the same key came in twice at once; the other one was first
            first = await self._first_answer(asked, digest)
            if first is None:
                raise
            return first
        self._wakeups.notify("sweeper", "sweeps")
        return row

    async def consider(
        self, principal: Principal, raw: Any, *, ingest_address: str, dry_run: bool, left: int | None = None
    ) -> Considered:
        """Everything that can be said against the sweep. `left`: of one that is resumed, how many trials still have to run."""
        sweep, job, refusals = _parsed(raw)
        if not sweep or not job:
            return Considered({}, {}, refusals)
        entry = self._catalog.entry(job["spec"]["recipe"]["name"])
        total, objective = 0, None
        if entry is not None:
            sweep = typed(entry, sweep)
            refusals += check_sweep(entry, sweep, _version(entry, job))
            total, objective = trials_of(sweep), objective_of(entry, sweep)
        refusals += _varied_twice(sweep, job)
        spec = trial_spec(job, NO_SWEEP, sweep.get("name"), 0, example(space_of(sweep["params"])))
        context, theirs = await self._submissions.considered(
            principal, spec, ingest_address=ingest_address, dry_run=dry_run
        )
        refusals += [refusal for refusal in theirs if not _said(refusal, refusals)]
        trials = total if left is None else left
        at_once = sweep.get("max_parallel") or most_at_once(context, trials)
        refusals += check_whole(context, Whole(trials, min(at_once, trials)))
        if left is None and await self._active(principal) >= MOST_ACTIVE:
            message = _("you have {count} sweeps at work, as many as anybody may have").format(count=MOST_ACTIVE)
            refusals.append(Refusal("quota", message, _("wait for the end of one, or cancel one")))
        if any(refusal.code == "sweep-too-large" for refusal in refusals):
            total = 0
        return Considered(sweep, job, refusals, context, total, at_once, objective)

    async def _active(self, principal: Principal) -> int:
        async with self._database.session() as session:
            return await repo.count_active(session, principal.user_id)

    async def _first_answer(self, asked: Asked, digest: str) -> SweepRow | None:
        if asked.key is None:
            return None
        async with self._database.session() as session:
            known = await repo.by_key(session, asked.principal.user_id, asked.key)
        if known is not None and known.request_digest != digest:
            raise refused(
                "idempotency-conflict",
                _("this Idempotency-Key was used for another sweep"),
                _("use a new key for a new sweep"),
            )
        return known

    async def _insert(self, session: AsyncSession, asked: Asked, found: Considered, digest: str) -> SweepRow:
        principal, metadata = asked.principal, found.job["metadata"]
        project = await self._projects.get_or_create(session, principal, metadata["project"])
        objective = found.objective or {}
        row = SweepRow(
            id=self._clock.new_id(),
            owner_id=principal.user_id,
            owner=principal.username,
            project_id=project.id,
            project=metadata["project"],
            experiment=metadata["name"],
            name=found.sweep.get("name"),
            recipe=found.job["spec"]["recipe"]["name"],
            sweep=found.sweep,
            job=found.job,
            total=found.total,
            max_parallel=found.max_parallel,
            metric=objective.get("metric"),
            goal=objective.get("goal"),
            state=str(SweepState.RUNNING),
            request_key=asked.key,
            request_digest=digest,
            version=1,
            created_at=self._clock.now(),
        )
        session.add(row)
        data = {"experiment": row.experiment, "trials": row.total}
        self._audit.record(session, AuditEntry(principal.username, "sweep.create", row.id, asked.address, data))
        await session.flush()
        return row

    # --- look -----------------------------------------------------------------------------------------------------

    async def get(self, principal: Principal, sweep_id: str) -> SweepRow:
        """The sweep, if it is the caller's to see; `not-found` otherwise, which does not tell whether it exists."""
        async with self._database.session() as session:
            row = await repo.get_readable(session, principal, sweep_id) if is_run_id(sweep_id) else None
        if row is None:
            raise not_found(
                _("there is no sweep {id}").format(id=sweep_id[:40]), _("tp sweep ls lists the sweeps you may see")
            )
        return row

    async def list(
        self,
        principal: Principal,
        *,
        owner: str | None = None,
        project: str | None = None,
        states: Sequence[str] = (),
        before: str | None = None,
        limit: int = 50,
    ) -> tuple[Sequence[SweepRow], str | None]:
        """(sweeps newest first, the id to go on from or None at the end)."""
        async with self._database.session() as session:
            rows = await repo.list_readable(
                session, principal, owner=owner, project=project, states=states, before=before, limit=limit + 1
            )
        return rows[:limit], rows[limit - 1].id if len(rows) > limit else None

    async def trials(self, sweep_id: str) -> Sequence[TrialRow]:
        """All of a sweep that the caller was already shown, by their numbers."""
        async with self._database.session() as session:
            return await repo.trials(session, sweep_id)

    async def counts(self, sweep_ids: Sequence[str]) -> dict[str, dict[str, int]]:
        async with self._database.session() as session:
            return await repo.counts(session, sweep_ids)

    async def best_values(self, rows: Sequence[SweepRow]) -> dict[str, float]:
        """Sweep -> its best value so far."""
        found: dict[str, float] = {}
        async with self._database.session() as session:
            for goal in ("min", "max"):
                ids = [row.id for row in rows if row.goal == goal]
                found |= await repo.best_values(session, ids, goal) if ids else {}
        return found

    # --- cancel and resume ----------------------------------------------------------------------------------------

    async def cancel(self, principal: Principal, sweep_id: str, *, address: str = "") -> SweepRow:
        """Begin no more trials and end those that live; to repeat that changes nothing. Raises `conflict` when it is over."""
        await self.get(principal, sweep_id)
        async with self._database.begin() as session:
            row = await repo.lock(session, sweep_id)
            assert row is not None
            if row.state not in ACTIVE:
                raise _over(row)
            if row.state != SweepState.CANCELLING:
                await repo.write(
                    session, row, {"state": str(SweepState.CANCELLING), "cancelled_by": principal.username}
                )
                self._audit.record(session, AuditEntry(principal.username, "sweep.cancel", sweep_id, address))
        self._wakeups.notify("sweeper", "sweeps")
        return await self.get(principal, sweep_id)

    async def resume(self, asked: Asked, sweep_id: str) -> SweepRow:
        """Go on with what has not run, and try again what failed or was cancelled. Raises `conflict` when there is nothing of it."""
        row = await self.get(asked.principal, sweep_id)
        trials = await self.trials(sweep_id)
        _check_resumable(row, trials)
        owner = Principal(row.owner_id, row.owner, False, frozenset(SCOPES))
        left = row.total - sum(not _runs_again(trial) for trial in trials)
        raw = {"sweep": row.sweep, "job": row.job}
        found = await self.consider(owner, raw, ingest_address=asked.ingest_address, dry_run=False, left=left)
        if found.refusals:
            raise RefusedError(found.refusals)
        async with self._database.begin() as session:
            current = await repo.lock(session, sweep_id)
            assert current is not None
            if current.version == row.version:
                for trial in trials:
                    if again(TrialState(trial.state)):
                        await repo.write_trial(session, trial, _anew(trial))
                values = {"state": str(SweepState.RUNNING), "why": None, "cancelled_by": None, "ended_at": None}
                await repo.write(session, current, values)
                actor = asked.principal.username
                self._audit.record(
                    session, AuditEntry(actor, "sweep.resume", sweep_id, asked.address, {"trials": left})
                )
        self._wakeups.notify("sweeper", "sweeps")
        return await self.get(asked.principal, sweep_id)


def _parsed(raw: Any) -> tuple[dict[str, Any], dict[str, Any], list[Refusal]]:
    """(the sweep completed, the JobSpec, what is wrong with their forms)."""
    if too_deep(raw):
        return {}, {}, [Refusal("request-invalid", _("the body is nested too deeply"), field="body")]
    if not isinstance(raw, dict) or set(raw) != {"sweep", "job"}:
        message = _("a sweep is asked for with {fields}").format(fields='{"sweep": …, "job": …}')
        return {}, {}, [Refusal("request-invalid", message, field="body")]
    spec, refusals = parse_jobspec(raw["job"])
    sweep: dict[str, Any] = {}
    try:
        sweep = SweepSpec.model_validate(raw["sweep"]).completed()
    except ValidationError as error:
        refusals += [
            Refusal("sweep-invalid", form_words(item), field=".".join(map(str, ("sweep", *item["loc"]))))
            for item in error.errors(include_url=False)[:MAX_REFUSALS]
        ]
    return sweep, {} if spec is None else spec.to_json(), refusals


def _digest(raw: Any) -> str:
    try:
        return "" if too_deep(raw) else digest_json(raw)
    except ValueError:
        return ""  # it is refused; a digest is needed only for what is made


def _version(entry: dict[str, Any], job: dict[str, Any]) -> str | None:
    version: str = job["spec"]["framework"]["version"]
    return version if version in entry["manifest"]["runtime"]["versions"] else None


def _varied_twice(sweep: dict[str, Any], job: dict[str, Any]) -> list[Refusal]:
    given = {*job["spec"].get("hyperparams", {}), *(f"env.{name}" for name in job["spec"].get("env", {}))}
    return [
        Refusal(
            "sweep-invalid",
            _("{name} is set for all trials, and varied").format(name=name),
            _("give it once"),
            field=f"sweep.params.{name}",
        )
        for name in sweep["params"]
        if name in given
    ]


def _said(refusal: Refusal, before: Sequence[Refusal]) -> bool:
    """Whether admission only repeats, of the example, what was found in a parameter of the sweep."""
    name = refusal.field.removeprefix("spec.hyperparams.").partition("[")[0]
    return refusal.field.startswith("spec.hyperparams.") and any(
        other.field == f"sweep.params.{name}" for other in before
    )


def _runs_again(trial: TrialRow) -> bool:
    return trial.state == TrialState.PLANNED or again(TrialState(trial.state))


def _anew(trial: TrialRow) -> dict[str, Any]:
    earlier = [*trial.earlier_jobs, *([trial.job_id] if trial.job_id else [])]
    return {
        "state": str(TrialState.PLANNED),
        "tries": trial.tries + 1,
        "job_id": None,
        "earlier_jobs": earlier,
        "value": None,
        "value_step": None,
        "rungs": [],
        "ended_at": None,
    }


def _check_resumable(row: SweepRow, trials: Sequence[TrialRow]) -> None:
    if row.state == SweepState.RUNNING:
        raise refused(
            "conflict",
            _("sweep {id} is running").format(id=row.id),
            _("there is nothing to resume"),
            more={"state": row.state},
        )
    if row.state in ACTIVE:
        raise refused(
            "conflict",
            _("sweep {id} still waits for the end of its live trials").format(id=row.id),
            _("resume it when tp sweep show {id} says that it has ended").format(id=row.id),
            more={"state": row.state},
        )
    if len(trials) == row.total and not any(_runs_again(trial) for trial in trials):
        raise refused(
            "conflict",
            _("sweep {id} has nothing left to run").format(id=row.id),
            _("start a new sweep for other values"),
            more={"state": row.state},
        )


def _over(row: SweepRow) -> ProblemError:
    message = _("sweep {id} is over").format(id=row.id)
    hint = _("there is nothing left to cancel; tp sweep show {id} tells how it ended").format(id=row.id)
    return refused("conflict", message, hint, more={"state": row.state})
