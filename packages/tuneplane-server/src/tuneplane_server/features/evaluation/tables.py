"""Reports of evaluations, one for each attempt that wrote one. What listings show stands in columns; the report itself is JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Double, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from tuneplane_server.db.base import Base, JsonText, UtcDateTime


class EvaluationRow(Base):
    """`problem` {code, data}: the report cannot be used, and nothing of it is kept. `heads`: the first tasks with the figure that stands
    for each, for listings."""

    __tablename__ = "evaluations"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    owner_id: Mapped[str] = mapped_column(ForeignKey("users.id"))
    # As of the job; they never change.
    owner: Mapped[str] = mapped_column(String(63))
    project: Mapped[str] = mapped_column(String(63))
    experiment: Mapped[str] = mapped_column(String(63))
    display_name: Mapped[str | None] = mapped_column(String(200))
    recipe: Mapped[str] = mapped_column(String(127))
    # What was evaluated: the reference of the JobSpec (None: the tiny model of the template), the run it names and the step of its
    # checkpoint, and the name that the job itself gives.
    model_ref: Mapped[str | None] = mapped_column(Text)
    model_run: Mapped[str | None] = mapped_column(String(16))
    model_step: Mapped[int | None] = mapped_column(BigInteger)
    model_name: Mapped[str | None] = mapped_column(Text)
    runner: Mapped[str | None] = mapped_column(String(63))
    tasks: Mapped[int]
    score: Mapped[float | None] = mapped_column(Double)
    heads: Mapped[list[dict[str, Any]]] = mapped_column(JsonText)
    gates: Mapped[list[dict[str, Any]]] = mapped_column(JsonText)  # of the JobSpec, judged: see kept.gates_of
    problem: Mapped[dict[str, Any] | None] = mapped_column(JsonText)
    report: Mapped[dict[str, Any] | None] = mapped_column(JsonText)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)

    __table_args__ = (
        Index("ix_evaluations_owner_id_job_id", "owner_id", "job_id"),
        Index("ix_evaluations_project", "project"),
        Index("ix_evaluations_model_run", "model_run"),
    )
