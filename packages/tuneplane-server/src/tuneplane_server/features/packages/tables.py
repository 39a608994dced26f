"""What packages the store holds. The bytes are in the object store under `packages/<sha256>`."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from tuneplane_server.db.base import Base, UtcDateTime


class PackageRow(Base):
    __tablename__ = "packages"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    size: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    last_used_at: Mapped[datetime] = mapped_column(UtcDateTime)


class PackageAccessRow(Base):
    """Who has uploaded a package. Knowing a digest must not be enough to use another user's lab."""

    __tablename__ = "package_access"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    user_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    since: Mapped[datetime] = mapped_column(UtcDateTime)
