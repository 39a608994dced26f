"""Rules of projects, what fires, and what people are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy.exc import IntegrityError

from tuneplane.contract.names import is_segment
from tuneplane.i18n import _
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.alerts import DEFAULTS, Rule
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.alerts import repo
from tuneplane_server.features.alerts.rules import MAX_RULE_NAME, MAX_RULES, RuleInput, by_project, changed, rules_of
from tuneplane_server.features.alerts.tables import AlertRuleRow, AlertStateRow, NotificationRow
from tuneplane_server.features.audit.service import AuditEntry, AuditService
from tuneplane_server.features.projects.service import ProjectService
from tuneplane_server.web.problems import not_found, refused

if TYPE_CHECKING:
    from tuneplane_server.features.projects.tables import ProjectRow

FIRING_SHOWN = 100
MOST_UNREAD = 100  # a bell counts so far
KEEP_READ, KEEP_UNREAD, KEEP_ENDED = timedelta(days=30), timedelta(days=90), timedelta(days=7)


@dataclass(frozen=True)
class ProjectAlerts:
    """`set_here`: names of the rules that the project has set itself."""

    rules: Mapping[str, Rule]
    set_here: frozenset[str]
    firing: Sequence[AlertStateRow]


class AlertService:
    def __init__(self, database: Database, clock: Clock, projects: ProjectService, audit: AuditService) -> None:
        self._database, self._clock, self._projects, self._audit = database, clock, projects, audit

    # --- rules ----------------------------------------------------------------------------------------------------

    async def of_project(self, principal: Principal, owner: str, project: str) -> ProjectAlerts:
        found = await self._projects.get(principal, owner, project)
        async with self._database.session() as session:
            rows = await repo.rules(session, [found.id])
            firing = await repo.firing(session, found.id, FIRING_SHOWN)
        return ProjectAlerts(rules_of(rows), frozenset(row.name for row in rows), firing)

    async def rules(self) -> tuple[Mapping[str, Rule], Mapping[str, Mapping[str, Rule]]]:
        """(the rules of a project that has set none, project -> its rules)."""
        async with self._database.session() as session:
            return DEFAULTS, by_project(await repo.rules(session))

    async def set_rule(self, principal: Principal, owner: str, project: str, name: str, given: RuleInput) -> Rule:
        """Make a rule or change one; what is not given stays."""
        found = await self._projects.get(principal, owner, project)
        if not is_segment(name) or len(name) > MAX_RULE_NAME:
            raise refused(
                "request-invalid",
                _("“{name}” is no name of a rule").format(name=name[:80]),
                _("letters, digits and . _ -, at most 63 of them"),
                field="name",
            )
        try:
            async with self._database.begin() as session:
                rows = {row.name: row for row in await repo.rules(session, [found.id])}
                rule = changed(name, rules_of(rows.values()).get(name), given)
                row = rows.get(name)
                if row is None:
                    if len(rows) >= MAX_RULES:
                        raise refused(
                            "conflict", _("a project has at most {count} rules of its own").format(count=MAX_RULES)
                        )
                    row = AlertRuleRow(project_id=found.id, name=name)
                    session.add(row)
                row.kind, row.enabled, row.metric = str(rule.kind), rule.enabled, rule.metric
                row.threshold, row.minutes, row.reports = rule.threshold, rule.minutes, rule.reports
                row.updated_at, row.updated_by = self._clock.now(), principal.username
                self._audit.record(session, AuditEntry(principal.username, "alert.set", _target(found, name)))
        except IntegrityError:  # both found no rule of that name; the other one was first
            raise refused(
                "conflict",
                _("the rule {name} was made by another at the same moment").format(name=name),
                _("look at it, and make the change if it is still right"),
            ) from None
        return rule

    async def remove_rule(self, principal: Principal, owner: str, project: str, name: str) -> None:
        """A rule of the project's own goes; a default becomes what it was."""
        found = await self._projects.get(principal, owner, project)
        async with self._database.begin() as session:
            row = await repo.rule(session, found.id, name)
            if row is None:
                hint = (
                    _("a default cannot be removed: switch it off") if name in DEFAULTS else _("tp alert ls lists them")
                )
                raise not_found(_("this project has set no rule {name}").format(name=name[:80]), hint)
            await session.delete(row)
            self._audit.record(session, AuditEntry(principal.username, "alert.remove", _target(found, name)))

    # --- notifications --------------------------------------------------------------------------------------------

    async def unread(self, principal: Principal) -> int:
        """How many the caller has not read; counts to `MOST_UNREAD`."""
        async with self._database.session() as session:
            return await repo.unread(session, principal.user_id, MOST_UNREAD)

    async def notifications(
        self, principal: Principal, *, before: str | None = None, limit: int = 50, unread_only: bool = False
    ) -> tuple[Sequence[NotificationRow], str | None]:
        """(newest first, the id to go on from or None at the end)."""
        async with self._database.session() as session:
            rows = await repo.notifications(
                session, principal.user_id, before=before, limit=limit + 1, unread_only=unread_only
            )
        return rows[:limit], rows[limit - 1].id if len(rows) > limit else None

    async def mark_read(self, principal: Principal, ids: Sequence[str] | None = None) -> None:
        """Only the caller's own; None: all of them."""
        async with self._database.begin() as session:
            await repo.mark_read(session, principal.user_id, ids, self._clock.now())

    async def prune(self) -> None:
        """Delete what nobody looks at any more."""
        now = self._clock.now()
        async with self._database.begin() as session:
            await repo.prune_notifications(session, now - KEEP_READ, now - KEEP_UNREAD)
            await repo.forget_ended(session, now - KEEP_ENDED)


def _target(project: ProjectRow, name: str) -> str:
    return f"{project.owner}/{project.name}/{name}"
