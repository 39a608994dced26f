"""Quotas and policies. `version` counts the changes of a row: of two administrators who edit one, the later is told."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, String
from sqlalchemy.orm import Mapped, mapped_column

from tuneplane_server.db.base import Base, JsonText, UtcDateTime


class QuotaRow(Base):
    """Limits of one user or one project; `subject_id` empty: of everyone who has none of their own."""

    __tablename__ = "quotas"

    scope: Mapped[str] = mapped_column(String(8), primary_key=True)  # user | project
    subject_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    limits: Mapped[dict[str, Any]] = mapped_column(JsonText)
    version: Mapped[int]
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_by: Mapped[str] = mapped_column(String(80))

    __table_args__ = (CheckConstraint("scope in ('user', 'project')", name="scope"),)


class PolicyRow(Base):
    """One policy of the installation by name (`drain`, `approval`, `watchdog`)."""

    __tablename__ = "policies"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    value: Mapped[dict[str, Any]] = mapped_column(JsonText)
    version: Mapped[int]
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_by: Mapped[str] = mapped_column(String(80))
