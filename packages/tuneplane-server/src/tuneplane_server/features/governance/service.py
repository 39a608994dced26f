"""Quotas and policies: read, edit with a version, and every edit in the audit record."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane.contract.profile import match_profile
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.quotas import Account, Limits, Scope, Settled, Use, account_of
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.audit.service import AuditEntry, AuditService
from tuneplane_server.features.governance import repo
from tuneplane_server.features.governance.limits import beyond, contradictions, parse_limits
from tuneplane_server.features.governance.policies import (
    POLICIES,
    Approval,
    Drain,
    DrainNow,
    PolicyModel,
    Watchdog,
    parse_policy,
    policy_model,
)
from tuneplane_server.features.governance.quotas import Book, Quota, Subject, whose
from tuneplane_server.features.governance.settled import SettledUses
from tuneplane_server.features.governance.tables import PolicyRow
from tuneplane_server.wakeups import Wakeups
from tuneplane_server.web.problems import ProblemError, not_found, refused

if TYPE_CHECKING:
    from tuneplane_server.features.accounts.service import AccountService
    from tuneplane_server.features.hardware.service import GpuUse, HardwareService
    from tuneplane_server.features.projects.service import ProjectService


@dataclass(frozen=True)
class Policy:
    """`version` 0: nobody has ever set it, and `value` is what holds then."""

    name: str
    value: PolicyModel
    version: int
    updated_at: datetime | None
    updated_by: str | None


class GovernanceService:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        audit: AuditService,
        accounts: AccountService,
        projects: ProjectService,
        hardware: HardwareService,
        wakeups: Wakeups,
    ) -> None:
        self._database, self._clock, self._audit, self._wakeups = database, clock, audit, wakeups
        self._accounts, self._projects, self._hardware = accounts, projects, hardware
        self._settled = SettledUses(hardware)

    # --- whose ----------------------------------------------------------------------------------------------------

    async def user(self, username: str) -> Subject:
        """The subject of a user's quota; `not-found` when there is none of that name."""
        row = await self._accounts.user(username)
        return Subject("user", row.id, row.username)

    async def project(self, owner: str, name: str) -> Subject:
        """The subject of a project's quota; `not-found` when there is none of that name."""
        row = await self._projects.find(owner, name)
        if row is None:
            raise not_found(
                _("there is no project “{name}”").format(name=f"{owner}/{name}"[:140]),
                _("a project comes to be with its first submission"),
            )
        return Subject("project", row.id, f"{row.owner}/{row.name}", row.owner_id)

    # --- quotas ---------------------------------------------------------------------------------------------------

    async def book(self, session: AsyncSession) -> Book:
        """The limits of everyone, in the running transaction."""
        return Book(await repo.quotas(session))

    async def quotas(self) -> list[Quota]:
        """Everyone's quota who has one of their own, and both defaults in any case; defaults first, then by name."""
        async with self._database.session() as session:
            book = await self.book(session)
            holders = book.holders()
            users = await self._accounts.names(session, [subject for scope, subject in holders if scope == "user"])
            projects = await self._projects.names(session, [item for scope, item in holders if scope == "project"])
        known = {"user": users, "project": projects}
        subjects = [Subject(scope, item, known[scope][item]) for scope, item in holders if item in known[scope]]
        defaults = [Subject("user", "", ""), Subject("project", "", "")]
        ordered = defaults + sorted(subjects, key=lambda subject: (subject.scope != "user", subject.name.lower()))
        return [book.quota(subject) for subject in ordered]

    async def quota(self, subject: Subject) -> Quota:
        async with self._database.session() as session:
            return (await self.book(session)).quota(subject)

    async def set_quota(
        self, principal: Principal, subject: Subject, raw: Any, version: int, address: str = ""
    ) -> Quota:
        """Replace the fields that the subject has of its own; none at all gives it back to the default.

        Raises `RefusedError` with everything that is wrong, and `conflict` when the quota is not at `version` any more.
        """
        values, refusals = parse_limits(raw)
        if not refusals:
            refusals = await self._unknown_profiles(subject, values)
        if refusals:
            raise RefusedError(refusals)
        try:
            async with self._database.begin() as session:
                await repo.lock_edits(session)
                quota = await self._write(session, principal, subject, values, version, address)
        except IntegrityError:  # both found no row; the other one was first
            raise _quota_conflict(await self.quota(subject)) from None
        self._wakeups.notify("placer")
        return quota

    async def _write(
        self,
        session: AsyncSession,
        principal: Principal,
        subject: Subject,
        values: dict[str, Any],
        version: int,
        address: str,
    ) -> Quota:
        book = await self.book(session)
        before = book.quota(subject)
        if before.version != version:
            raise _quota_conflict(before)
        refusals = await self._contradictions(session, subject, book, values)
        if refusals:
            raise RefusedError(refusals)
        now = self._clock.now()
        if not await repo.write_quota(session, subject.scope, subject.id, version, values, principal.username, now):
            raise _quota_conflict(before)
        data = {"before": dict(before.own), "after": values, "version": version + 1}
        self._audit.record(session, AuditEntry(principal.username, "quota.set", str(subject), address, data))
        return Quota(subject, values, before.default, version + 1, now, principal.username)

    async def _contradictions(
        self, session: AsyncSession, subject: Subject, book: Book, values: Mapping[str, Any]
    ) -> list[Refusal]:
        """What the edit would make contradictory: of itself, and of those who inherit from it."""
        after = book.with_(subject.scope, subject.id, values)
        mine = after.limits(subject.scope, subject.id)
        found = contradictions(mine, subject.text())
        if not found and subject.default:
            found = await self._contradicted_heirs(session, subject, after)
        if subject.default:
            owner, owner_text = after.limits("user", ""), whose("user", "")
            project, whose_project, fields = after.limits("project", ""), whose("project", ""), after.default("project")
        elif subject.owner_id is not None:
            owner, owner_text = after.limits("user", subject.owner_id), _("its owner")
            project, whose_project, fields = mine, subject.text(), values
        else:
            return found
        return found + beyond(project, owner, whose_project, owner_text, frozenset(fields))

    async def _contradicted_heirs(self, session: AsyncSession, subject: Subject, after: Book) -> list[Refusal]:
        heirs = [item for scope, item in after.holders() if scope == subject.scope and item]
        wrong = [item for item in heirs if contradictions(after.limits(subject.scope, item), "")]
        if not wrong:
            return []
        feature = self._accounts if subject.scope == "user" else self._projects
        names = await feature.names(session, wrong[:1])
        return contradictions(
            after.limits(subject.scope, wrong[0]), whose(subject.scope, names.get(wrong[0], wrong[0]))
        )

    async def _unknown_profiles(self, subject: Subject, values: Mapping[str, Any]) -> list[Refusal]:
        """Profiles that no machine has. What stands in the quota already may stay while its machines are away."""
        asked = values.get("profiles") or ()
        if not asked:
            return []
        known = {profile.name for profile in await self._hardware.profiles()}
        known |= set((await self.quota(subject)).own.get("profiles") or ())
        found: list[Refusal] = []
        for name in asked:
            try:
                match_profile(name, known)
            except RefusedError as error:
                found += [replace(refusal, field="limits.profiles") for refusal in error.refusals]
        return found

    # --- use ------------------------------------------------------------------------------------------------------

    async def accounts(
        self, session: AsyncSession, owners: Collection[str], projects: Collection[str], now: datetime
    ) -> dict[tuple[Scope, str], Account]:
        """(scope, id) -> limits and present use, in the running transaction, of those of them who have a limit to wait for."""
        book = await self.book(session)
        limited_owners = {item for item in owners if waits(book.limits("user", item))}
        limited_projects = {item for item in projects if waits(book.limits("project", item))}
        if not limited_owners and not limited_projects:
            return {}
        settled = await self._settled.sums(session, now)
        uses = await self._uses(session, settled.until, limited_owners, limited_projects)
        users = await self._accounts.names(session, limited_owners)
        names = await self._projects.names(session, limited_projects)
        found: dict[tuple[Scope, str], Account] = {}
        for item in limited_owners:
            mine = [use for use in uses if use.owner_id == item]
            found["user", item] = account(
                "user", item, users.get(item, item), book, mine, now, settled.of("user", item)
            )
        for item in limited_projects:
            mine = [use for use in uses if use.project_id == item]
            found["project", item] = account(
                "project", item, names.get(item, item), book, mine, now, settled.of("project", item)
            )
        return found

    async def account(self, session: AsyncSession, subject: Subject, book: Book, now: datetime) -> Account:
        """One subject's limits and present use, whether limited or not."""
        ids = {subject.id}
        is_user = subject.scope == "user"
        settled = await self._settled.sums(session, now)
        uses = await self._uses(session, settled.until, ids if is_user else set(), set() if is_user else ids)
        mine = [use for use in uses if (use.owner_id if is_user else use.project_id) == subject.id]
        of_subject = settled.of(subject.scope, subject.id)
        return account(subject.scope, subject.id, subject.name, book, mine, now, of_subject)

    async def _uses(
        self, session: AsyncSession, since: datetime, owners: Collection[str], projects: Collection[str]
    ) -> list[GpuUse]:
        """Live ones and those that ended after `since`; each once, also when both its owner and its project are asked for."""
        found: dict[tuple[str, int], GpuUse] = {}
        for ids in ({"owner_ids": owners}, {"project_ids": projects}):
            if any(ids.values()):
                for use in await self._hardware.uses(session, since, **ids):
                    found[use.job_id, use.attempt] = use
        return list(found.values())

    # --- policies -------------------------------------------------------------------------------------------------

    async def policies(self) -> list[Policy]:
        async with self._database.session() as session:
            rows = await repo.policies(session)
        return [_policy(name, rows.get(name)) for name in POLICIES]

    async def policy(self, name: str) -> Policy:
        """Raises `not-found` for a name that is none."""
        policy_model(name)
        async with self._database.session() as session:
            return _policy(name, await repo.policy(session, name))

    async def set_policy(self, principal: Principal, name: str, raw: Any, version: int, address: str = "") -> Policy:
        """Replace a policy; a field that is left out takes its default. Errors as of `set_quota`."""
        value, refusals = parse_policy(name, raw)
        if value is None:
            raise RefusedError(refusals)
        try:
            async with self._database.begin() as session:
                before = _policy(name, await repo.policy(session, name))
                now = self._clock.now()
                stored = self._stored(value, before.value, principal, now)
                if before.version != version or not await repo.write_policy(
                    session, name, version, stored, principal.username, now
                ):
                    raise _policy_conflict(before)
                data = {"before": before.value.model_dump(mode="json"), "after": stored, "version": version + 1}
                self._audit.record(session, AuditEntry(principal.username, "policy.set", name, address, data))
        except IntegrityError:
            raise _policy_conflict(await self.policy(name)) from None
        self._wakeups.notify("placer")
        return await self.policy(name)

    def _stored(self, value: PolicyModel, before: PolicyModel, principal: Principal, now: datetime) -> dict[str, Any]:
        """What the row keeps. A drain says since when and by whom; a new text does not begin it anew."""
        if not isinstance(value, Drain):
            return value.model_dump(mode="json")
        goes_on = isinstance(before, DrainNow) and before.on
        since = (before.since if goes_on and isinstance(before, DrainNow) else now) if value.on else None
        by = (before.by if goes_on and isinstance(before, DrainNow) else principal.username) if value.on else None
        return DrainNow(on=value.on, text=value.text, since=since, by=by).model_dump(mode="json")

    async def edits(self, session: AsyncSession) -> tuple[int, int]:
        """Changes whenever a quota or a policy does, in the running transaction."""
        return await repo.edits(session)

    async def drained(self, session: AsyncSession) -> bool:
        """Whether nothing may be started now, in the running transaction."""
        value = _policy("drain", await repo.policy(session, "drain")).value
        assert isinstance(value, DrainNow)
        return value.on

    async def drain(self) -> DrainNow:
        value = (await self.policy("drain")).value
        assert isinstance(value, DrainNow)
        return value

    async def approval(self) -> Approval:
        value = (await self.policy("approval")).value
        assert isinstance(value, Approval)
        return value

    async def watchdog(self) -> Watchdog:
        value = (await self.policy("watchdog")).value
        assert isinstance(value, Watchdog)
        return value


def waits(limits: Limits) -> bool:
    """Whether anything of these limits is something that a queued job waits for."""
    return any(getattr(limits, name) is not None for name in ("gpus", "jobs", "gpu_hours_day", "gpu_hours_month"))


def account(
    scope: Scope, subject_id: str, name: str, book: Book, uses: Sequence[GpuUse], now: datetime, settled: Settled
) -> Account:
    """`uses`, `settled`: of this subject alone. Every live one, also without GPUs, is a job."""
    jobs = sum(use.ended_at is None for use in uses)
    plain = [Use(use.gpus, use.started_at, use.reserved_until, use.ended_at) for use in uses]
    limits = book.limits(scope, subject_id)
    return account_of(scope, subject_id, name, limits, jobs=jobs, uses=plain, now=now, settled=settled)


def _policy(name: str, row: PolicyRow | None) -> Policy:
    model = DrainNow if name == "drain" else policy_model(name)
    if row is None:
        return Policy(name, model(), 0, None, None)
    return Policy(name, model.model_validate(row.value, strict=False), row.version, row.updated_at, row.updated_by)


def _quota_conflict(now: Quota) -> ProblemError:
    current = {"version": now.version, "limits": dict(now.own), "updated_by": now.updated_by}
    return _conflict(
        _("the quota of {whose}").format(whose=now.subject.text()), now.updated_by, now.updated_at, current
    )


def _policy_conflict(now: Policy) -> ProblemError:
    current = {"version": now.version, "value": now.value.model_dump(mode="json"), "updated_by": now.updated_by}
    return _conflict(_("the policy {name}").format(name=now.name), now.updated_by, now.updated_at, current)


def _conflict(what: str, by: str | None, at: datetime | None, current: dict[str, Any]) -> ProblemError:
    """409 with who was first, when, and the figures as they are now."""
    when = at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if at else "-"
    figures = current.get("limits", current.get("value"))
    shown = ", ".join(f"{name} {value}" for name, value in figures.items()) or _("nothing of its own")
    message = _("{what} was changed meanwhile by {by} at {when}; it is now: {figures}").format(
        what=what, by=by or "-", when=when, figures=shown
    )
    hint = _("look at the figures as they are now, and make the change again if it is still right")
    more = {"current": current | {"updated_at": at.isoformat() if at else None}}
    return refused("conflict", message, hint, field="version", more=more)
