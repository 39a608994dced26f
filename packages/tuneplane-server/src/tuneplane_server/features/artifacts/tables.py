"""The index of files in the out dirs of runs."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKeyConstraint, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from tuneplane_server.db.base import Base, UtcDateTime


class ArtifactSetRow(Base):
    """One attempt's index. `source`: runner (its artifacts.json) or scan (we looked ourselves)."""

    __tablename__ = "artifact_sets"

    job_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    out_dir: Mapped[str] = mapped_column(Text)
    source: Mapped[str] = mapped_column(String(8))
    truncated: Mapped[bool]
    skipped: Mapped[int]  # entries whose names could not be kept
    bytes: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")  # of its files together
    registered_at: Mapped[datetime] = mapped_column(UtcDateTime)


class ArtifactFileRow(Base):
    """`path`: relative to the out dir, POSIX. `sha256` None until hashed; `problem` says why it could not be."""

    __tablename__ = "artifact_files"

    job_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    path: Mapped[str] = mapped_column(Text, primary_key=True)
    size: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str | None] = mapped_column(String(64))
    problem: Mapped[str | None] = mapped_column(String(32))

    __table_args__ = (
        ForeignKeyConstraint(
            ["job_id", "attempt"], ["artifact_sets.job_id", "artifact_sets.attempt"], ondelete="CASCADE"
        ),
        Index("ix_artifact_files_sha256", "sha256"),
    )


class CheckpointRow(Base):
    """A checkpoint directory; `problem` says why a run cannot resume from it."""

    __tablename__ = "artifact_checkpoints"

    job_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    path: Mapped[str] = mapped_column(Text, primary_key=True)
    step: Mapped[int] = mapped_column(BigInteger)
    complete: Mapped[bool]
    problem: Mapped[str | None] = mapped_column(Text)

    __table_args__ = (
        ForeignKeyConstraint(
            ["job_id", "attempt"], ["artifact_sets.job_id", "artifact_sets.attempt"], ondelete="CASCADE"
        ),
    )
