"""Accounts. No secret is kept as it is: passwords as argon2id, tokens and codes as SHA-256."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from tuneplane_server.db.base import Base, JsonText, UtcDateTime


class UserRow(Base):
    __tablename__ = "users"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    username: Mapped[str] = mapped_column(String(63))  # a path segment: it names the owner's directory
    username_key: Mapped[str] = mapped_column(String(63), unique=True)  # lower case: names differ in more than case
    password_hash: Mapped[str | None] = mapped_column(String(200))
    admin: Mapped[bool]
    # Part of every session: raising it signs the user out everywhere.
    session_epoch: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    disabled_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class ApiTokenRow(Base):
    __tablename__ = "api_tokens"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    name: Mapped[str] = mapped_column(String(100))
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    scopes: Mapped[list[str]] = mapped_column(JsonText)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_used_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (Index("ix_api_tokens_user_id", "user_id"),)


class DeviceCodeRow(Base):
    """RFC 8628: the client holds the device code, the person types the user code."""

    __tablename__ = "device_codes"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    user_code: Mapped[str] = mapped_column(String(9), unique=True)
    client: Mapped[str] = mapped_column(String(100))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)
    user_id: Mapped[str | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    decided_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    approved: Mapped[bool]
    consumed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class SetupTokenRow(Base):
    """The one-time link that makes the first administrator; only the newest unused one counts."""

    __tablename__ = "setup_tokens"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    used_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
