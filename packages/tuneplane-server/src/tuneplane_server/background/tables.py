"""Leases and the consoles that take them: which process works on which row in which role, and when a row that failed may be tried again."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from tuneplane_server.db.base import Base, JsonText, UtcDateTime


class LeaseRow(Base):
    __tablename__ = "leases"

    role: Mapped[str] = mapped_column(String(32), primary_key=True)
    row_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    owner: Mapped[str] = mapped_column(String(64))
    token: Mapped[str] = mapped_column(String(32))  # new with every claim: whoever has an older one writes nothing
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)
    failures: Mapped[int]
    not_before: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (Index("ix_leases_role_expires_at", "role", "expires_at"),)


class ConsoleRow(Base):
    """A console process that serves from this database, and when it last said so."""

    __tablename__ = "consoles"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    instance: Mapped[str] = mapped_column(String(64))
    host: Mapped[str] = mapped_column(String(253))
    process: Mapped[dict[str, Any]] = mapped_column(
        JsonText
    )  # {pid, start_time, boot_id, namespace}: dead or not, on its own machine
    redis: Mapped[bool]  # it hears the others through Redis
    one_console: Mapped[bool]  # nobody else can ask about the runs it starts
    started_at: Mapped[datetime] = mapped_column(UtcDateTime)
    seen_at: Mapped[datetime] = mapped_column(UtcDateTime)
