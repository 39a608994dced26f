"""The audit record. Rows are only ever added; triggers of the schema refuse UPDATE and DELETE."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Index, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from tuneplane_server.db.base import Base, JsonText, UtcDateTime


class AuditRow(Base):
    __tablename__ = "audit_events"

    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)
    time: Mapped[datetime] = mapped_column(UtcDateTime)
    actor: Mapped[str] = mapped_column(String(80))  # username, or `system:<part>`
    action: Mapped[str] = mapped_column(String(64))  # for example `job.cancel`
    target: Mapped[str] = mapped_column(String(200))
    address: Mapped[str] = mapped_column(String(64))  # where the request came from; empty for the system
    data: Mapped[dict[str, Any]] = mapped_column(JsonText)

    __table_args__ = (
        Index("ix_audit_events_time", "time"),
        Index("ix_audit_events_target", "target"),
    )
