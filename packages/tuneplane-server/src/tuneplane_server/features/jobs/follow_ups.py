"""What runs asked for after their success (`spec.lifecycle.on_success`): each step becomes a run of its own, once.

The key of a step's submission is made of the run and the step's number, so a console that is killed behind any line, or is not alone, makes
no second one. When all steps are dealt with, the run bears an event that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import structlog

from tuneplane.contract.export import ExportStep
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane_server.db.engine import Database
from tuneplane_server.features.accounts.principal import SCOPES, Principal
from tuneplane_server.features.accounts.service import AccountService
from tuneplane_server.features.jobs import repo
from tuneplane_server.features.jobs.exporting import ExportWanted, JobExports
from tuneplane_server.features.jobs.ledger import Ledger
from tuneplane_server.features.jobs.steering import Asked
from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.web.problems import ProblemError

log = structlog.get_logger(__name__)

DONE, REFUSED = "followed", "follow-refused"  # kinds of events
AT_ONCE = 200
# Refusals that pass by themselves, when others of the owner's jobs end.
_PASSING = frozenset({"quota-exceeded"})


class FollowUpWaitsError(Exception):
    """Nothing can be submitted for now; asked again later it may be."""


class FollowUps:
    def __init__(
        self,
        database: Database,
        exports: JobExports,
        ledger: Ledger,
        accounts: AccountService,
        ingest_address: Callable[[], str],
    ) -> None:
        self._database, self._exports, self._ledger, self._accounts = database, exports, ledger, accounts
        self._ingest_address = ingest_address

    async def due(self, since: datetime) -> Sequence[tuple[str, datetime]]:
        """(run, when it ended) of those that have succeeded since and whose steps are not dealt with; the oldest first, at most
        `AT_ONCE`."""
        async with self._database.session() as session:
            return await repo.to_follow_up(session, since, DONE, AT_ONCE)

    async def make(self, job_id: str) -> None:
        """Submit what the run asked for, or what of it there is not yet. Raises `FollowUpWaitsError`; may be repeated."""
        async with self._database.session() as session:
            row = await repo.get(session, job_id)
        if row is None:
            return
        made: list[str] = []
        refused: list[dict[str, str]] = []
        owner_gone = (await self._accounts.user(row.owner)).disabled_at is not None
        for number, step in enumerate(row.spec["spec"]["lifecycle"]["on_success"]):
            if owner_gone:
                refused.append({"step": str(number + 1), "why": _("its owner may not sign in")})
                continue
            try:
                made.append(await self._submit(row, number, ExportStep.model_validate(step["export"] or {})))
            except (RefusedError, ProblemError) as error:
                refused.append({"step": str(number + 1), "why": _why(error)})
        async with self._database.begin() as session:
            for item in refused:
                await self._ledger.note(session, row.id, REFUSED, item)
            await self._ledger.note(session, row.id, DONE, {"runs": ", ".join(made) or "-"})

    async def _submit(self, row: JobRow, number: int, step: ExportStep) -> str:
        owner = Principal(row.owner_id, row.owner, False, frozenset(SCOPES))
        asked = Asked(owner, f"after:{row.id}:{number}", self._ingest_address())
        try:
            return (await self._exports.export(asked, row.id, ExportWanted(**step.model_dump()))).id
        except (RefusedError, ProblemError) as error:
            codes = {refusal.code for refusal in error.refusals}
            if codes and codes <= _PASSING:
                raise FollowUpWaitsError(_why(error)) from error
            log.info("a step after a run was refused", job=row.id, step=number, codes=sorted(codes))
            raise


def _why(error: RefusedError | ProblemError) -> str:
    refusals: Sequence[Refusal] = error.refusals
    return "; ".join(refusal.message for refusal in refusals)[:500] or str(getattr(error, "detail", error))
