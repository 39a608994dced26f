"""Rules of projects, what they know about each run, notifications to people, webhooks and everything sent to them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Double, Index, LargeBinary, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from tuneplane_server.db.base import Base, JsonText, UtcDateTime


class AlertRuleRow(Base):
    """A rule that a project has set; a default without a row is as `domain.alerts.DEFAULTS` has it."""

    __tablename__ = "alert_rules"

    project_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    name: Mapped[str] = mapped_column(String(63), primary_key=True)
    kind: Mapped[str] = mapped_column(String(32))
    enabled: Mapped[bool]
    metric: Mapped[str] = mapped_column(String(200))
    threshold: Mapped[float] = mapped_column(Double)
    minutes: Mapped[float] = mapped_column(Double)
    reports: Mapped[int]
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_by: Mapped[str] = mapped_column(String(80))


class AlertStateRow(Base):
    """Of one rule about one run, while it is not simply `ok`. `version` is the guard: of two who saw the same one writes.

    An ending (`job-failed`, …) leaves a row of stage `fired`, so that it is told once."""

    __tablename__ = "alert_states"

    job_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    rule: Mapped[str] = mapped_column(String(63), primary_key=True)
    stage: Mapped[str] = mapped_column(String(8))
    since: Mapped[datetime] = mapped_column(UtcDateTime)
    calm_since: Mapped[datetime | None] = mapped_column(UtcDateTime)
    count: Mapped[int]
    data: Mapped[dict[str, Any]] = mapped_column(JsonText)
    kind: Mapped[str] = mapped_column(String(32))
    project_id: Mapped[str] = mapped_column(String(16))
    version: Mapped[int]

    __table_args__ = (Index("ix_alert_states_stage_since", "stage", "since"),)


class NotificationRow(Base):
    """What one person is told in the console."""

    __tablename__ = "notifications"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    user_id: Mapped[str] = mapped_column(String(16))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    effect: Mapped[str] = mapped_column(String(8))  # fired | resolved
    rule: Mapped[str] = mapped_column(String(63))
    kind: Mapped[str] = mapped_column(String(32))
    data: Mapped[dict[str, Any]] = mapped_column(JsonText)
    job_id: Mapped[str] = mapped_column(String(16))
    job_name: Mapped[str] = mapped_column(String(200))
    project: Mapped[str] = mapped_column(String(127))  # <owner>/<project>
    read_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (Index("ix_notifications_user_id_read_at_id", "user_id", "read_at", "id"),)


class WebhookRow(Base):
    __tablename__ = "webhooks"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    project_id: Mapped[str] = mapped_column(String(16))
    url: Mapped[str] = mapped_column(Text)
    description: Mapped[str] = mapped_column(String(200))
    events: Mapped[list[str]] = mapped_column(JsonText)  # empty: all
    secret: Mapped[bytes] = mapped_column(LargeBinary)  # sealed
    enabled: Mapped[bool]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    created_by: Mapped[str] = mapped_column(String(80))
    disabled_why: Mapped[str] = mapped_column(String(200))

    __table_args__ = (Index("ix_webhooks_project_id", "project_id"),)


class DeliveryRow(Base):
    """One message to one webhook: sent again until it is taken or given up. The log of it is `tries`."""

    __tablename__ = "webhook_deliveries"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    webhook_id: Mapped[str] = mapped_column(String(16))
    message_id: Mapped[str] = mapped_column(String(40))  # the same when it is sent again by hand
    event: Mapped[str] = mapped_column(String(32))
    body: Mapped[str] = mapped_column(Text)  # ASCII JSON, the bytes that are signed
    state: Mapped[str] = mapped_column(String(16))  # pending | delivered | failed
    tries: Mapped[list[dict[str, Any]]] = mapped_column(JsonText)  # [{at, status, error, milliseconds}]
    next_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    version: Mapped[int]

    __table_args__ = (
        Index("ix_webhook_deliveries_state_next_at", "state", "next_at"),
        Index("ix_webhook_deliveries_webhook_id_id", "webhook_id", "id"),
    )
