"""What happens when an alert fires or is over: its state, who is told, and what is sent are one transaction.

Nothing is sent from here: deliveries are rows, and a role sends them.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane.i18n import using_language
from tuneplane_server.clock import Clock
from tuneplane_server.domain.alerts import ENDINGS, NOTHING, AlertState, Effect, Kind, Stage
from tuneplane_server.features.alerts import repo, webhook_repo
from tuneplane_server.features.alerts.tables import AlertStateRow, DeliveryRow, NotificationRow, WebhookRow
from tuneplane_server.features.alerts.texts import alert_text

TEST_EVENT = "test.ping"
EVENTS = ("alert.fired", "alert.resolved", "job.failed", "job.succeeded")


class SeenBeforeError(Exception):
    """Another look has written the same already: nothing is to be done, and nothing of this transaction is."""


@dataclass(frozen=True)
class Subject:
    """The run that an alert is about."""

    job_id: str
    owner_id: str
    owner: str
    project_id: str
    project: str
    experiment: str
    display_name: str | None
    phase: str

    @property
    def name(self) -> str:
        return self.display_name or self.experiment


@dataclass(frozen=True)
class Move:
    """From what was seen (None: nothing was known) to what is to be written."""

    rule: str
    kind: Kind
    seen: AlertStateRow | None
    after: AlertState
    effect: Effect | None
    data: Mapping[str, Any]


class AlertWriter:
    """`address`: how people reach this console, for the links in what is sent."""

    def __init__(self, clock: Clock, address: Callable[[], str]) -> None:
        self._clock, self._address = clock, address

    async def write(self, session: AsyncSession, subject: Subject, move: Move) -> None:
        """Raises `SeenBeforeError` when the state is not what was seen any more: who wrote it has told everybody."""
        if not await _write_state(session, subject, move):
            raise SeenBeforeError
        await self._tell(session, subject, move)

    async def write_ending(self, session: AsyncSession, subject: Subject, move: Move, ended_at: datetime) -> None:
        """As `write`, of a run that is over: the row that stays keeps it from being told twice."""
        values = _values(subject, move, AlertState(since=ended_at, data=move.data)) | {"stage": repo.ENDED}
        if not await repo.add_state(session, values):
            raise SeenBeforeError
        await self._tell(session, subject, move)

    async def _tell(self, session: AsyncSession, subject: Subject, move: Move) -> None:
        if move.effect is None:
            return
        if move.effect is Effect.FIRED:
            session.add(self._notification(subject, move))
        event = event_of(move.kind, move.effect)
        hooks = [hook for hook in await webhook_repo.of_project(session, subject.project_id) if wants(hook, event)]
        if hooks:
            body = self._body(subject, move, event)
            webhook_repo.add(session, [self.delivery(hook.id, event, body) for hook in hooks])

    def _notification(self, subject: Subject, move: Move) -> NotificationRow:
        return NotificationRow(
            id=self._clock.new_id(),
            user_id=subject.owner_id,
            created_at=self._clock.now(),
            effect=str(move.effect),
            rule=move.rule,
            kind=str(move.kind),
            data=dict(move.data),
            job_id=subject.job_id,
            job_name=subject.name[:200],
            project=f"{subject.owner}/{subject.project}",
            read_at=None,
        )

    def _body(self, subject: Subject, move: Move, event: str) -> str:
        with using_language("en"):  # machines read it, and people of several languages
            text = alert_text(move.kind, move.data)
        return self.envelope(
            event,
            {
                "rule": move.rule,
                "kind": str(move.kind),
                "text": text,
                "values": dict(move.data),
                "job": {
                    "id": subject.job_id,
                    "owner": subject.owner,
                    "project": subject.project,
                    "experiment": subject.experiment,
                    "display_name": subject.display_name,
                    "phase": subject.phase,
                    "url": f"{self._address()}/jobs/{subject.job_id}",
                },
            },
        )

    def envelope(self, event: str, data: Mapping[str, Any]) -> str:
        """The body of a message as Standard Webhooks has it: type, timestamp, data."""
        message = {"type": event, "timestamp": self._clock.now().isoformat(), "data": data}
        return json.dumps(message, ensure_ascii=True, allow_nan=False, separators=(",", ":"))

    def delivery(self, webhook_id: str, event: str, body: str, message_id: str | None = None) -> DeliveryRow:
        """To be sent as soon as may be."""
        now = self._clock.now()
        return DeliveryRow(
            id=self._clock.new_id(),
            webhook_id=webhook_id,
            message_id=message_id or f"msg_{secrets.token_hex(16)}",
            event=event,
            body=body,
            state=webhook_repo.PENDING,
            tries=[],
            next_at=now,
            created_at=now,
            ended_at=None,
            version=1,
        )


def event_of(kind: Kind, effect: Effect) -> str:
    if kind in ENDINGS:
        return f"job.{ENDINGS[kind]}"
    return f"alert.{effect}"


def wants(hook: WebhookRow, event: str) -> bool:
    return hook.enabled and (not hook.events or event in hook.events)


def state_of(row: AlertStateRow | None) -> AlertState:
    if row is None or row.stage == repo.ENDED:
        return NOTHING
    return AlertState(Stage(row.stage), row.since, row.calm_since, row.count, row.data)


async def _write_state(session: AsyncSession, subject: Subject, move: Move) -> bool:
    if move.after.stage is Stage.OK:
        return move.seen is None or await repo.change_state(session, move.seen, None)
    values = _values(subject, move, move.after)
    if move.seen is None:
        return await repo.add_state(session, values)
    return await repo.change_state(session, move.seen, values)


def _values(subject: Subject, move: Move, state: AlertState) -> dict[str, Any]:
    return {
        "job_id": subject.job_id,
        "rule": move.rule,
        "stage": str(state.stage),
        "since": state.since,
        "calm_since": state.calm_since,
        "count": state.count,
        "data": dict(state.data),
        "kind": str(move.kind),
        "project_id": subject.project_id,
    }
