"""Holds: which attempt has which cards and CPUs. A row goes only when the executor confirmed that nothing runs there.

Uses are the account of it: written with the hold, ended with its release, and kept.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Float, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from tuneplane_server.db.base import Base, UtcDateTime


class GpuHoldRow(Base):
    """The primary key is the guard: two attempts cannot hold one card."""

    __tablename__ = "gpu_holds"

    node: Mapped[str] = mapped_column(String(253), primary_key=True)
    gpu_index: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    job_id: Mapped[str] = mapped_column(String(16))
    attempt: Mapped[int]
    since: Mapped[datetime] = mapped_column(UtcDateTime)

    __table_args__ = (Index("ix_gpu_holds_job_id", "job_id"),)


class CpuHoldRow(Base):
    """CPUs and memory of one attempt on one node; GPU jobs without a figure of their own hold none."""

    __tablename__ = "cpu_holds"

    job_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    node: Mapped[str] = mapped_column(String(253), primary_key=True)
    cpus: Mapped[float] = mapped_column(Float(53))
    memory_gb: Mapped[float] = mapped_column(Float(53))
    since: Mapped[datetime] = mapped_column(UtcDateTime)


class GpuUseRow(Base):
    """How many cards an attempt has held, from when to when. `reserved_until`: as long as it may run, None without a limit."""

    __tablename__ = "gpu_uses"

    job_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    owner_id: Mapped[str] = mapped_column(String(16))
    project_id: Mapped[str] = mapped_column(String(16))
    gpus: Mapped[int]
    started_at: Mapped[datetime] = mapped_column(UtcDateTime)
    reserved_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (
        Index("ix_gpu_uses_ended_at", "ended_at"),
        Index("ix_gpu_uses_owner_id_ended_at", "owner_id", "ended_at"),
        Index("ix_gpu_uses_project_id_ended_at", "project_id", "ended_at"),
    )
