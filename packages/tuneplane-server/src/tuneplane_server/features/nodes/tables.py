"""Nodes that have joined, and fences: attempts that were given up on a node and may still be there."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from tuneplane_server.db.base import Base, JsonText, UtcDateTime


class NodeRow(Base):
    """A machine under its name. What it told last is kept as it came; `last_heard` is written now and then, and not counted
    by `version`, which every other write raises.
    """

    __tablename__ = "nodes"

    name: Mapped[str] = mapped_column(String(253), primary_key=True)
    node_id: Mapped[str] = mapped_column(String(64))
    address: Mapped[str] = mapped_column(Text)
    hello: Mapped[dict[str, Any]] = mapped_column(JsonText)
    inventory: Mapped[dict[str, Any]] = mapped_column(JsonText)
    findings: Mapped[list[dict[str, Any]]] = mapped_column(JsonText)
    state: Mapped[str] = mapped_column(String(16))  # what administrators want: ready | cordoned | draining | removed
    state_by: Mapped[str] = mapped_column(String(80))
    state_at: Mapped[datetime] = mapped_column(UtcDateTime)
    joined_at: Mapped[datetime] = mapped_column(UtcDateTime)
    last_heard: Mapped[datetime] = mapped_column(UtcDateTime)
    proved_at: Mapped[datetime | None] = mapped_column(
        UtcDateTime
    )  # when the storage root was last proved to be the same
    proved_start: Mapped[str] = mapped_column(String(200))  # of which start of its daemon; another start proves it anew
    refusal: Mapped[dict[str, Any] | None] = mapped_column(
        JsonText
    )  # {code, values}: what the last proof found instead
    unreachable: Mapped[dict[str, Any] | None] = mapped_column(
        JsonText
    )  # {code, detail, since}: the console cannot call it
    version: Mapped[int]

    __table_args__ = (
        CheckConstraint("state in ('ready', 'cordoned', 'draining', 'removed')", name="state"),
        Index("ix_nodes_node_id", "node_id"),
    )


class NodeFenceRow(Base):
    """An attempt that ended without a word of the node. The node is not used until it has proved that nothing of it is left.

    `node_id`: the machine that had it, which a new machine of the same name is not.
    """

    __tablename__ = "node_fences"

    node: Mapped[str] = mapped_column(String(253), primary_key=True)
    job_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    node_id: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
