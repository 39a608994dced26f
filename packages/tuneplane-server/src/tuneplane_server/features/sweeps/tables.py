"""A sweep and its trials. All that a sweep knows is here: what it does next is worked out anew from these rows at each look."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Double, ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from tuneplane_server.db.base import Base, JsonText, UtcDateTime
from tuneplane_server.domain.sweeps import SweepState, TrialState


class SweepRow(Base):
    __tablename__ = "sweeps"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    owner_id: Mapped[str] = mapped_column(ForeignKey("users.id"))
    owner: Mapped[str] = mapped_column(String(63))
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    project: Mapped[str] = mapped_column(String(63))
    experiment: Mapped[str] = mapped_column(String(63))
    name: Mapped[str | None] = mapped_column(String(100))
    recipe: Mapped[str] = mapped_column(String(127))
    sweep: Mapped[dict[str, Any]] = mapped_column(JsonText)  # contract.sweep.SweepSpec, completed
    job: Mapped[dict[str, Any]] = mapped_column(JsonText)  # the JobSpec that every trial's is made of
    total: Mapped[int]  # trials in all
    max_parallel: Mapped[int]
    metric: Mapped[str | None] = mapped_column(String(200))
    goal: Mapped[str | None] = mapped_column(String(3))  # min | max
    state: Mapped[str] = mapped_column(String(16))
    why: Mapped[dict[str, Any] | None] = mapped_column(JsonText)  # why it stopped: {code, data}
    cancelled_by: Mapped[str | None] = mapped_column(String(63))
    # The first answer to an Idempotency-Key, as of a job.
    request_key: Mapped[str | None] = mapped_column(String(200))
    request_digest: Mapped[str] = mapped_column(String(64))
    version: Mapped[int]  # counts the changes of this row
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (
        CheckConstraint(f"state in ({', '.join(f"'{state}'" for state in SweepState)})", name="state"),
        UniqueConstraint("owner_id", "request_key"),
        Index("ix_sweeps_state", "state"),
        Index("ix_sweeps_owner_id_id", "owner_id", "id"),
    )


class TrialRow(Base):
    __tablename__ = "trials"

    sweep_id: Mapped[str] = mapped_column(ForeignKey("sweeps.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)  # from 0
    params: Mapped[dict[str, Any]] = mapped_column(JsonText)  # its variant; never changes
    state: Mapped[str] = mapped_column(String(16))
    tries: Mapped[int]  # from 1; a sweep that is resumed tries again what failed
    job_id: Mapped[str | None] = mapped_column(String(16))  # of the newest try
    earlier_jobs: Mapped[list[str]] = mapped_column(JsonText)
    value: Mapped[float | None] = mapped_column(Double)  # the objective, as it was reported last
    value_step: Mapped[int | None] = mapped_column(BigInteger)
    # Where it was compared with others: [{rung, step, value, kept, place}]. `place` counts over the whole sweep, in the order of
    # the comparisons, so that they can be made again and come out the same. Values as texts where JSON has no such number.
    rungs: Mapped[list[dict[str, Any]]] = mapped_column(JsonText)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (
        CheckConstraint(f"state in ({', '.join(f"'{state}'" for state in TrialState)})", name="state"),
        Index("ix_trials_job_id", "job_id"),
    )
