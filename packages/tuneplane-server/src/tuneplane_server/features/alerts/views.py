"""Shapes of the alerts' answers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel

from tuneplane_server.domain.alerts import DEFAULTS, Effect, Rule
from tuneplane_server.features.alerts.rules import WITH_METRIC, WITH_MINUTES, WITH_THRESHOLD
from tuneplane_server.features.alerts.service import ProjectAlerts
from tuneplane_server.features.alerts.tables import AlertStateRow, DeliveryRow, NotificationRow, WebhookRow
from tuneplane_server.features.alerts.texts import alert_text, kind_text


class RuleView(BaseModel):
    """`text`: what the kind looks for. A field that the kind has no use for is None. `origin`: `default`, `changed` (a default that
    the project has set) or `own`."""

    name: str
    kind: str
    text: str
    enabled: bool
    metric: str | None
    threshold: float | None
    minutes: float | None
    reports: int | None
    origin: str


class FiringView(BaseModel):
    """What fires now: `text` in the reader's language."""

    rule: str
    kind: str
    job_id: str
    since: datetime
    text: str


class AlertsView(BaseModel):
    rules: list[RuleView]
    firing: list[FiringView]


class NotificationView(BaseModel):
    id: str
    created_at: datetime
    rule: str
    kind: str
    text: str
    job_id: str
    job_name: str
    project: str
    read: bool


class NotificationPage(BaseModel):
    """`unread`: of all, counted to 100."""

    items: list[NotificationView]
    unread: int
    next_cursor: str | None


class WebhookView(BaseModel):
    """`events`: empty for all."""

    id: str
    url: str
    description: str
    events: list[str]
    enabled: bool
    disabled_why: str
    created_at: datetime
    created_by: str


class NewWebhookView(BaseModel):
    """`secret` is shown this one time."""

    webhook: WebhookView
    secret: str


class TryView(BaseModel):
    at: datetime
    status: int | None
    error: str
    milliseconds: int


class DeliveryView(BaseModel):
    id: str
    message_id: str
    event: str
    state: str
    tries: list[TryView]
    next_at: datetime | None
    created_at: datetime
    ended_at: datetime | None


class DeliveryPage(BaseModel):
    items: list[DeliveryView]
    next_cursor: str | None


def rule_view(rule: Rule, *, set_here: bool) -> RuleView:
    origin = ("changed" if set_here else "default") if rule.name in DEFAULTS else "own"
    return RuleView(
        name=rule.name,
        kind=str(rule.kind),
        text=kind_text(rule.kind),
        enabled=rule.enabled,
        metric=rule.metric if rule.kind in WITH_METRIC else None,
        threshold=rule.threshold if rule.kind in WITH_THRESHOLD else None,
        minutes=rule.minutes if rule.kind in WITH_MINUTES else None,
        reports=rule.reports if rule.kind in WITH_METRIC else None,
        origin=origin,
    )


def alerts_view(found: ProjectAlerts) -> AlertsView:
    return AlertsView(
        rules=[rule_view(rule, set_here=name in found.set_here) for name, rule in found.rules.items()],
        firing=[firing_view(row) for row in found.firing],
    )


def firing_view(row: AlertStateRow) -> FiringView:
    return FiringView(
        rule=row.rule, kind=row.kind, job_id=row.job_id, since=row.since, text=alert_text(row.kind, row.data)
    )


def notification_view(row: NotificationRow) -> NotificationView:
    assert row.effect == Effect.FIRED
    return NotificationView(
        id=row.id,
        created_at=row.created_at,
        rule=row.rule,
        kind=row.kind,
        text=alert_text(row.kind, row.data),
        job_id=row.job_id,
        job_name=row.job_name,
        project=row.project,
        read=row.read_at is not None,
    )


def webhook_view(row: WebhookRow) -> WebhookView:
    return WebhookView(
        id=row.id,
        url=row.url,
        description=row.description,
        events=row.events,
        enabled=row.enabled,
        disabled_why=row.disabled_why,
        created_at=row.created_at,
        created_by=row.created_by,
    )


def delivery_view(row: DeliveryRow) -> DeliveryView:
    tries: list[dict[str, Any]] = row.tries
    return DeliveryView(
        id=row.id,
        message_id=row.message_id,
        event=row.event,
        state=row.state,
        tries=[TryView(**item) for item in tries],
        next_at=row.next_at,
        created_at=row.created_at,
        ended_at=row.ended_at,
    )
