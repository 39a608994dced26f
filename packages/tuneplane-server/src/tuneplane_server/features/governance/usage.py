"""What somebody has and uses: for admission, which refuses by it, and for people, who look at it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.quotas import Account, Scope
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.governance.policies import Approval
from tuneplane_server.features.governance.quotas import Book, Quota, Subject
from tuneplane_server.features.governance.service import GovernanceService, waits

if TYPE_CHECKING:
    from tuneplane_server.features.accounts.service import AccountService
    from tuneplane_server.features.artifacts.service import ArtifactService
    from tuneplane_server.features.jobs.service import JobService
    from tuneplane_server.features.projects.service import ProjectService
    from tuneplane_server.features.telemetry.service import TelemetryService


@dataclass(frozen=True)
class Standing:
    """One user's or project's account, with what only admission looks at. `stored_bytes`: files of runs and their telemetry."""

    account: Account
    queued: int
    stored_bytes: int


@dataclass(frozen=True)
class Standings:
    """What governance says of a submission. `administrators`: who can change it."""

    of: tuple[Standing, ...]
    approval: Approval
    administrators: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """A quota with the use of it at `now`."""

    quota: Quota
    standing: Standing
    now: datetime


class UsageService:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        governance: GovernanceService,
        accounts: AccountService,
        projects: ProjectService,
        artifacts: ArtifactService,
        telemetry: TelemetryService,
        jobs: Callable[[], JobService],
    ) -> None:
        self._database, self._clock, self._governance = database, clock, governance
        self._accounts, self._projects = accounts, projects
        self._artifacts, self._telemetry, self._jobs = artifacts, telemetry, jobs

    async def standings(self, principal: Principal, project: str) -> Standings:
        """Of the user and their project, which need not exist yet."""
        approval = await self._governance.approval()
        row = await self._projects.find(principal.username, project)
        user = Subject("user", principal.user_id, principal.username)
        name = f"{principal.username}/{project}"
        subjects = (user, Subject("project", row.id if row else "", name, principal.user_id))
        async with self._database.session() as session:
            book = await self._governance.book(session)
            found = [await self._standing(session, subject, book, limited_only=True) for subject in subjects]
            administrators = tuple(await self._accounts.administrators(session))
        return Standings(tuple(found), approval, administrators)

    async def report(self, subject: Subject) -> Report:
        """A quota and its use; the use of a default is nobody's, so all zeros."""
        async with self._database.session() as session:
            book = await self._governance.book(session)
            standing = await self._standing(session, subject, book)
        return Report(book.quota(subject), standing, self._clock.now())

    async def own(self, principal: Principal, project: str | None) -> list[Report]:
        """The caller's own, and that of one of their projects, if there is one of that name."""
        reports = [await self.report(Subject("user", principal.user_id, principal.username))]
        row = None if project is None else await self._projects.find(principal.username, project)
        if row is not None:
            reports.append(await self.report(Subject("project", row.id, f"{row.owner}/{row.name}", row.owner_id)))
        return reports

    async def _standing(
        self, session: AsyncSession, subject: Subject, book: Book, *, limited_only: bool = False
    ) -> Standing:
        """With an empty id (a default, or a project to come) nothing is used. `limited_only`: count what has a limit."""
        limits = book.limits(subject.scope, subject.id)
        if limited_only and not waits(limits):
            account = Account(subject.scope, subject.id, subject.name, limits)
        else:
            account = await self._governance.account(session, subject, book, self._clock.now())
        if not subject.id:
            return Standing(account, 0, 0)
        whose: Mapping[Scope, str] = {subject.scope: subject.id}
        runs = self._jobs().runs_of(owner_id=whose.get("user"), project_id=whose.get("project"))
        queued = stored = 0
        if not limited_only or limits.queued_jobs is not None:
            queued = await self._jobs().count_queued(session, runs)
        if not limited_only or limits.storage_gb is not None:
            stored = await self._artifacts.bytes_of(session, runs) + await self._telemetry.bytes_of(session, runs)
        return Standing(account, queued, stored)
