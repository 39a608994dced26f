"""Projects. A name is unique for its owner, not for the server."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from tuneplane_server.db.base import Base, UtcDateTime


class ProjectRow(Base):
    __tablename__ = "projects"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    owner_id: Mapped[str] = mapped_column(ForeignKey("users.id"))
    owner: Mapped[str] = mapped_column(String(63))  # the username; it never changes, because it is a directory
    name: Mapped[str] = mapped_column(String(63))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)

    __table_args__ = (UniqueConstraint("owner_id", "name"),)
