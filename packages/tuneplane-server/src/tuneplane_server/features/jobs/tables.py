"""The ledger. A job row keeps apart what other systems mix: desired, phase, conditions, reason, cleanup, attempt, handle.

`version` counts the changes of a row: every write says which version it saw, so a late writer changes nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from tuneplane.contract.words import PHASES
from tuneplane_server.db.base import Base, JsonText, UtcDateTime

_PHASE_LIST = ", ".join(f"'{phase}'" for phase in PHASES)


class JobRow(Base):
    __tablename__ = "jobs"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    owner_id: Mapped[str] = mapped_column(ForeignKey("users.id"))
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    # Names as they were at submission; they are directories, so they never change.
    owner: Mapped[str] = mapped_column(String(63))
    project: Mapped[str] = mapped_column(String(63))
    experiment: Mapped[str] = mapped_column(String(63))
    display_name: Mapped[str | None] = mapped_column(String(200))

    recipe: Mapped[str] = mapped_column(String(127))
    recipe_version: Mapped[str] = mapped_column(String(32))
    framework: Mapped[str] = mapped_column(String(63))
    spec: Mapped[dict[str, Any]] = mapped_column(JsonText)  # the JobSpec as admitted
    package_digest: Mapped[str] = mapped_column(String(64))
    runtime: Mapped[dict[str, Any]] = mapped_column(JsonText)  # {runtime_id, image, source}, as resolved at admission
    simulated: Mapped[bool]  # some of its cards are invented

    # What the queue needs of the spec, so that a tick over thousands of jobs parses no specs.
    demand: Mapped[list[dict[str, Any]]] = mapped_column(
        JsonText
    )  # [{name, profile, nodes, gpus_per_node, cpus, memory_gb}]
    priority: Mapped[int] = mapped_column(default=0)
    max_seconds: Mapped[int | None]  # spec.limits.max_duration, or the policy's
    # The run that this one repeats (`retry`) or goes on from (`resume`).
    origin_id: Mapped[str | None] = mapped_column(String(16))
    origin_kind: Mapped[str | None] = mapped_column(String(8))

    desired: Mapped[str] = mapped_column(String(8))  # run | cancel
    paused: Mapped[bool] = mapped_column(default=False)
    approval: Mapped[str] = mapped_column(String(8), default="none")  # none | pending | given
    not_before: Mapped[datetime | None] = mapped_column(UtcDateTime)  # a further attempt rests until then
    stop_cause: Mapped[str | None] = mapped_column(String(32))  # why we stop it: domain.phases.StopCause
    phase: Mapped[str] = mapped_column(String(16))
    phase_since: Mapped[datetime] = mapped_column(UtcDateTime)
    conditions: Mapped[list[dict[str, Any]]] = mapped_column(JsonText)
    verdict: Mapped[dict[str, Any] | None] = mapped_column(JsonText)  # how the attempt ended, before it is settled
    reason: Mapped[dict[str, Any] | None] = mapped_column(JsonText)  # first cause, write-once
    cleanup: Mapped[str] = mapped_column(String(16))  # none | pending | confirmed
    attempt: Mapped[int]
    handle: Mapped[dict[str, Any] | None] = mapped_column(JsonText)
    version: Mapped[int]

    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (
        CheckConstraint(f"phase in ({_PHASE_LIST})", name="phase"),
        CheckConstraint("desired in ('run', 'cancel')", name="desired"),
        CheckConstraint("cleanup in ('none', 'pending', 'confirmed')", name="cleanup"),
        Index("ix_jobs_owner_id_id", "owner_id", "id"),
        # With the version: who looks whether something has changed reads no rows.
        Index("ix_jobs_phase_id_version", "phase", "id", "version"),
        Index("ix_jobs_owner_id_phase_id", "owner_id", "phase", "id"),
        Index("ix_jobs_cleanup", "cleanup"),
        Index("ix_jobs_project_id", "project_id"),
        Index("ix_jobs_origin_id", "origin_id"),
        Index("ix_jobs_finished_at", "finished_at"),
    )


class AttemptRow(Base):
    __tablename__ = "job_attempts"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    n: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    phase: Mapped[str] = mapped_column(String(16))
    reason: Mapped[dict[str, Any] | None] = mapped_column(JsonText)
    resume_from: Mapped[str | None] = mapped_column(Text)
    placement: Mapped[list[dict[str, Any]]] = mapped_column(JsonText)  # [{pool, node, gpus}]
    outcome: Mapped[dict[str, Any] | None] = mapped_column(JsonText)
    capsule_digest: Mapped[str | None] = mapped_column(String(64))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    # What the reaper has done for this attempt; each is done once and survives a crash between two.
    spool_shipped_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    hashed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (Index("ix_job_attempts_hashed_at_finished_at", "hashed_at", "finished_at"),)


class JobEventRow(Base):
    """What happened to a job, and what was ignored and why. Only ever added to."""

    __tablename__ = "job_events"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    time: Mapped[datetime] = mapped_column(UtcDateTime)
    kind: Mapped[str] = mapped_column(String(32))
    attempt: Mapped[int]
    from_phase: Mapped[str] = mapped_column(String(16))
    to_phase: Mapped[str] = mapped_column(String(16))
    ignored: Mapped[bool]
    data: Mapped[dict[str, Any]] = mapped_column(JsonText)


class IdempotencyRow(Base):
    """The first answer to a key of a user: a resubmission gets the same job."""

    __tablename__ = "idempotency_keys"

    owner_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    request_digest: Mapped[str] = mapped_column(String(64))
    job_id: Mapped[str] = mapped_column(String(16))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
