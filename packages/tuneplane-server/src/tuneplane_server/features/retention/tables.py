"""What a project keeps, and what was removed of its runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from tuneplane_server.db.base import Base, JsonText, UtcDateTime


class RetentionRow(Base):
    """The setting of one project; a project without one keeps everything. Never deleted: `version` counts its changes."""

    __tablename__ = "retention"

    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    value: Mapped[dict[str, Any]] = mapped_column(JsonText)
    version: Mapped[int]
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_by: Mapped[str] = mapped_column(String(80))


class RemovalRow(Base):
    """One kind of one run's telemetry that goes or is gone. Written before the first of it goes, so that no reader wonders."""

    __tablename__ = "telemetry_removals"

    job_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    kind: Mapped[str] = mapped_column(String(8), primary_key=True)  # logs | metrics | samples
    why: Mapped[str] = mapped_column(String(8))  # age | size
    began_at: Mapped[datetime] = mapped_column(UtcDateTime)
    done_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    bytes: Mapped[int] = mapped_column(BigInteger)  # of output or samples; 0 for metrics
