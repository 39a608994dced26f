"""Holds: which attempt has which cards and CPUs. A row goes only when the executor confirmed that nothing runs there.

Uses are the account of it: written with the hold, ended with its release, and kept.

Figures are what machines, cards and runs were measured to use: columns in blocks, never one row per moment.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Double,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from tuneplane_server.db.base import Base, JsonText, UtcDateTime


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
    """How many cards an attempt has held, from when to when. `reserved_until`: as long as it may run, None without a limit.

    `pending`: it has none yet, the executor's own queue holds it; its times are those of its placement until it begins.
    """

    __tablename__ = "gpu_uses"

    job_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    owner_id: Mapped[str] = mapped_column(String(16))
    project_id: Mapped[str] = mapped_column(String(16))
    gpus: Mapped[int]
    started_at: Mapped[datetime] = mapped_column(UtcDateTime)
    reserved_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    pending: Mapped[bool] = mapped_column(Boolean, default=False)

    __table_args__ = (
        Index("ix_gpu_uses_ended_at", "ended_at"),
        Index("ix_gpu_uses_owner_id_ended_at", "owner_id", "ended_at"),
        Index("ix_gpu_uses_project_id_ended_at", "project_id", "ended_at"),
    )


class FigureSeriesRow(Base):
    """Figures of one part (`machine`, `job`, `gpu0`, …) of a node: of the node itself (`job_id` empty, `attempt` 0), or as a run
    had it. `open`: the newest moments, fewer than a block (`domain.figures`); they are replaced as a whole each time.
    """

    __tablename__ = "figure_series"

    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)
    job_id: Mapped[str] = mapped_column(String(16))
    attempt: Mapped[int]
    node: Mapped[str] = mapped_column(String(253))
    part: Mapped[str] = mapped_column(String(16))
    count: Mapped[int] = mapped_column(BigInteger)  # moments, those in blocks included
    blocks: Mapped[int]
    first_time: Mapped[float] = mapped_column(Double)  # Unix seconds, the machine's clock
    last_time: Mapped[float] = mapped_column(Double)
    last: Mapped[dict[str, Any]] = mapped_column(JsonText)  # the newest figures
    seen_at: Mapped[datetime] = mapped_column(UtcDateTime)  # when they came, on the console's clock
    # Of a card of a run: since when it has been idle by what was measured; null while it works.
    idle_since: Mapped[datetime | None] = mapped_column(UtcDateTime)
    open: Mapped[bytes] = mapped_column(LargeBinary)

    __table_args__ = (UniqueConstraint("job_id", "attempt", "node", "part"),)


class FigureBlockRow(Base):
    """A full block of figures, and beside it the same thinned out."""

    __tablename__ = "figure_blocks"

    series_id: Mapped[int] = mapped_column(ForeignKey("figure_series.id", ondelete="CASCADE"), primary_key=True)
    block: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    last_time: Mapped[float] = mapped_column(Double)
    rollup: Mapped[bytes] = mapped_column(LargeBinary)
    data: Mapped[bytes] = mapped_column(LargeBinary)
