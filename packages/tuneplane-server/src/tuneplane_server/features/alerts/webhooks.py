"""Webhooks of projects: made with a secret that is shown once, tried, watched by their log, sent again by hand."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tuneplane.i18n import _
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain import webhooks as rules
from tuneplane_server.domain.webhooks import UrlError
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.alerts import webhook_repo as repo
from tuneplane_server.features.alerts.firing import TEST_EVENT, AlertWriter
from tuneplane_server.features.alerts.sending import Sent
from tuneplane_server.features.alerts.tables import DeliveryRow, WebhookRow
from tuneplane_server.features.audit.service import AuditEntry, AuditService
from tuneplane_server.features.projects.service import ProjectService
from tuneplane_server.sealing import Sealer
from tuneplane_server.wakeups import Wakeups
from tuneplane_server.web.problems import ProblemError, not_found, refused

if TYPE_CHECKING:
    from tuneplane_server.features.projects.tables import ProjectRow

MAX_WEBHOOKS = 20
MAX_PENDING = 20  # of one webhook, before somebody may add one by hand
KEEP_DELIVERIES = timedelta(days=30)
TRIES_SHOWN = 2 * rules.MAX_TRIES


@dataclass(frozen=True)
class NewWebhook:
    """`secret` is shown this one time."""

    row: WebhookRow
    secret: str


@dataclass(frozen=True)
class Outgoing:
    """One delivery and where it goes; the secret is opened only for the call."""

    row: DeliveryRow
    webhook: WebhookRow
    secret: str


class WebhookService:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        projects: ProjectService,
        audit: AuditService,
        sealer: Sealer,
        writer: AlertWriter,
        wakeups: Wakeups,
        allowed_hosts: str,
    ) -> None:
        self._database, self._clock, self._projects, self._audit = database, clock, projects, audit
        self._sealer, self._writer, self._wakeups = sealer, writer, wakeups
        self._allowed = rules.parse_hosts(allowed_hosts)

    # --- what people do -------------------------------------------------------------------------------------------

    async def list(self, principal: Principal, owner: str, project: str) -> Sequence[WebhookRow]:
        found = await self._projects.get(principal, owner, project)
        async with self._database.session() as session:
            return await repo.of_project(session, found.id)

    async def add(
        self, principal: Principal, owner: str, project: str, url: str, description: str, events: Sequence[str]
    ) -> NewWebhook:
        found = await self._projects.get(principal, owner, project)
        self._check(url)
        webhook_id, secret = self._clock.new_id(), rules.make_secret(secrets.token_bytes(rules.SECRET_BYTES))
        row = WebhookRow(
            id=webhook_id,
            project_id=found.id,
            url=url,
            description=description,
            events=list(dict.fromkeys(events)),
            secret=self._sealer.seal(secret, _about(webhook_id)),
            enabled=True,
            created_at=self._clock.now(),
            created_by=principal.username,
            disabled_why="",
        )
        async with self._database.begin() as session:
            if len(await repo.of_project(session, found.id)) >= MAX_WEBHOOKS:
                raise refused("conflict", _("a project has at most {count} webhooks").format(count=MAX_WEBHOOKS))
            session.add(row)
            self._note(session, principal, "webhook.add", found, webhook_id)
        return NewWebhook(row, secret)

    async def remove(self, principal: Principal, owner: str, project: str, webhook_id: str) -> None:
        """What was not sent yet is not sent any more."""
        found, row = await self._get(principal, owner, project, webhook_id)
        async with self._database.begin() as session:
            await repo.remove(session, row.id)
            self._note(session, principal, "webhook.remove", found, row.id)

    async def enable(self, principal: Principal, owner: str, project: str, webhook_id: str) -> WebhookRow:
        """One that answered 410 Gone is off until somebody says so."""
        found, row = await self._get(principal, owner, project, webhook_id)
        async with self._database.begin() as session:
            await repo.set_enabled(session, row.id, True, "")
            self._note(session, principal, "webhook.enable", found, row.id)
        return (await self._get(principal, owner, project, webhook_id))[1]

    async def test(self, principal: Principal, owner: str, project: str, webhook_id: str) -> DeliveryRow:
        """Send a `test.ping` like any other message."""
        found, row = await self._get(principal, owner, project, webhook_id)
        data = {"project": f"{found.owner}/{found.name}", "by": principal.username}
        delivery = self._writer.delivery(row.id, TEST_EVENT, self._writer.envelope(TEST_EVENT, data))
        return await self._send(delivery)

    async def redeliver(
        self, principal: Principal, owner: str, project: str, webhook_id: str, delivery_id: str
    ) -> DeliveryRow:
        """The same message under the same id once more: a receiver that has it already sees that."""
        _project, row = await self._get(principal, owner, project, webhook_id)
        async with self._database.session() as session:
            old = await repo.delivery(session, delivery_id)
        if old is None or old.webhook_id != row.id:
            raise not_found(_("there is no delivery {id}").format(id=delivery_id[:40]))
        return await self._send(self._writer.delivery(row.id, old.event, old.body, old.message_id))

    async def deliveries(
        self, principal: Principal, owner: str, project: str, webhook_id: str, *, before: str | None, limit: int
    ) -> tuple[Sequence[DeliveryRow], str | None]:
        """(newest first, the id to go on from or None at the end)."""
        _project, row = await self._get(principal, owner, project, webhook_id)
        async with self._database.session() as session:
            rows = await repo.deliveries(session, row.id, before=before, limit=limit + 1)
        return rows[:limit], rows[limit - 1].id if len(rows) > limit else None

    # --- what the deliverer does ----------------------------------------------------------------------------------

    async def due(self, limit: int) -> Sequence[str]:
        async with self._database.session() as session:
            return await repo.due(session, self._clock.now(), limit)

    async def outgoing(self, delivery_id: str) -> Outgoing | None:
        """None when it is sent already, or its webhook is gone. Raises `SealError`."""
        async with self._database.session() as session:
            row = await repo.delivery(session, delivery_id)
            hook = None if row is None else await repo.webhook(session, row.webhook_id)
        if row is None or hook is None or row.state != repo.PENDING:
            return None
        return Outgoing(row, hook, self._sealer.open(hook.secret, _about(hook.id)))

    async def note(self, row: DeliveryRow, sent: Sent) -> None:
        """Write down a try: delivered, to be tried again, or given up."""
        now = self._clock.now()
        tries = [*row.tries, {"at": now.isoformat(), **sent.to_json()}]
        values: dict[str, Any] = {"tries": tries[-TRIES_SHOWN:], "next_at": None, "ended_at": now}
        rest = None if sent.gone else rules.rest_after(len(tries), sent.retry_after)
        if sent.delivered:
            values["state"] = repo.DELIVERED
        elif rest is None:
            values["state"] = repo.FAILED
        else:
            values |= {"next_at": now + rest, "ended_at": None}
        async with self._database.begin() as session:
            if await repo.write(session, row, values) and sent.gone:
                await repo.set_enabled(session, row.webhook_id, False, "410 Gone")
        self._wakeups.notify("deliverer")  # the next one of this webhook has its turn

    async def give_up(self, row_id: str, why: str) -> None:
        """It can never be sent: its secret does not open."""
        async with self._database.session() as session:
            row = await repo.delivery(session, row_id)
        if row is not None and row.state == repo.PENDING:
            now = self._clock.now()
            tries = [*row.tries, {"at": now.isoformat(), "status": None, "error": why, "milliseconds": 0}]
            values = {"tries": tries, "next_at": None, "ended_at": now, "state": repo.FAILED}
            async with self._database.begin() as session:
                await repo.write(session, row, values)

    async def prune(self) -> None:
        async with self._database.begin() as session:
            await repo.prune(session, self._clock.now() - KEEP_DELIVERIES)

    async def counts(self) -> dict[str, int]:
        """State -> deliveries that are kept."""
        async with self._database.session() as session:
            return await repo.counts(session)

    # --- parts ----------------------------------------------------------------------------------------------------

    async def _get(
        self, principal: Principal, owner: str, project: str, webhook_id: str
    ) -> tuple[ProjectRow, WebhookRow]:
        found = await self._projects.get(principal, owner, project)
        async with self._database.session() as session:
            row = await repo.webhook(session, webhook_id) if len(webhook_id) <= len(found.id) else None
        if row is None or row.project_id != found.id:
            raise not_found(
                _("there is no webhook {id} in this project").format(id=webhook_id[:40]), _("tp webhook ls lists them")
            )
        return found, row

    async def _send(self, delivery: DeliveryRow) -> DeliveryRow:
        async with self._database.begin() as session:
            if await repo.pending(session, delivery.webhook_id) >= MAX_PENDING:
                raise refused(
                    "conflict",
                    _("{count} messages wait for this webhook already").format(count=MAX_PENDING),
                    _("tp webhook log shows why they do not arrive"),
                )
            repo.add(session, [delivery])
        self._wakeups.notify("deliverer")
        return delivery

    def _check(self, url: str) -> None:
        """What can be said of a URL without calling it. Where its name points is looked at before every call."""
        try:
            where = rules.target(url)
        except UrlError as error:
            raise _bad_url(error.why) from None
        if rules.is_allowed(where, self._allowed):
            return
        address = rules.parse_address(where.host)
        if where.host == "localhost" or where.host.endswith(".localhost") or (address and not rules.is_public(address)):
            raise _bad_url("private")
        if where.scheme != "https":
            raise _bad_url("plain")

    def _note(self, session: Any, principal: Principal, action: str, project: ProjectRow, webhook_id: str) -> None:
        target = f"{project.owner}/{project.name}/{webhook_id}"
        self._audit.record(session, AuditEntry(principal.username, action, target))


def _about(webhook_id: str) -> str:
    return f"webhook:{webhook_id}"


def _bad_url(why: str) -> ProblemError:
    said = {
        "form": _("that is no http or https address"),
        "credentials": _("an address with a user or a password in it would end up in logs"),
        "fragment": _("the part after # never reaches a server"),
        "private": _("that address is of this machine or of a private network"),
        "plain": _("over plain http anybody on the way reads along"),
    }
    hints = {
        "credentials": _("the receiver checks the signature instead"),
        "private": _("an administrator may allow its host with TUNEPLANE_WEBHOOK_HOSTS"),
        "plain": _("use https; for a host of your own network an administrator sets TUNEPLANE_WEBHOOK_HOSTS"),
    }
    return refused("request-invalid", said[why], hints.get(why, ""), field="url")
