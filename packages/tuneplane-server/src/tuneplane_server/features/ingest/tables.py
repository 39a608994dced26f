"""Who may send for which attempt, and when each machine was last heard."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Double, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from tuneplane_server.db.base import Base, UtcDateTime


class IngestTokenRow(Base):
    """One token of one attempt; only its SHA-256 is kept. Several may be valid at once: a renewed one beside the old.

    `rank`: of a sender outside of the job, which may send as nobody else; None: the runner's, for every rank.
    """

    __tablename__ = "ingest_tokens"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    job_id: Mapped[str] = mapped_column(String(16))
    attempt: Mapped[int]
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    issued_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    rank: Mapped[int | None]

    __table_args__ = (
        Index("uq_ingest_tokens_job_id_attempt_rank", "job_id", "attempt", "rank", unique=True),
        Index("ix_ingest_tokens_job_id_attempt", "job_id", "attempt"),
        Index("ix_ingest_tokens_expires_at", "expires_at"),
    )


class HeartbeatRow(Base):
    """The newest heartbeat of each machine of an attempt. `received_at` is this console's clock, `sent_at` the machine's."""

    __tablename__ = "ingest_heartbeats"

    job_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    rank: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    state: Mapped[str] = mapped_column(String(16))
    sent_at: Mapped[float] = mapped_column(Double)
    received_at: Mapped[datetime] = mapped_column(UtcDateTime)
