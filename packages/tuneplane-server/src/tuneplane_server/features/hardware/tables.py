"""Holds: which attempt has which cards and CPUs. A row goes only when the executor confirmed that nothing runs there."""

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
