"""SQL of nodes and fences."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import bindparam, delete, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.db.guards import changed_one
from tuneplane_server.domain.nodes import NodeState
from tuneplane_server.features.nodes.tables import NodeFenceRow, NodeRow

AT_ONCE = 200  # rows or parameters of one statement
AHEAD = timedelta(minutes=1)  # clocks of consoles that differ by less are as they are

_NODES: Any = NodeRow.__table__


class Mark(NamedTuple):
    """Of a row: whether it must be read again, and when its node was heard of as far as consoles have written it."""

    name: str
    version: int
    last_heard: datetime


async def marks(session: AsyncSession) -> list[Mark]:
    query = select(_NODES.c.name, _NODES.c.version, _NODES.c.last_heard).order_by(_NODES.c.name)
    return [Mark(*row) for row in await session.execute(query)]


async def rows(session: AsyncSession, names: Sequence[str]) -> AsyncIterator[NodeRow]:
    for start in range(0, len(names), AT_ONCE):
        some = select(NodeRow).where(NodeRow.name.in_(names[start : start + AT_ONCE]))
        for row in await session.scalars(some):
            yield row


async def get(session: AsyncSession, name: str) -> NodeRow | None:
    """The row as it is, locked for this transaction to change; whoever changes it raises its `version`."""
    return await session.get(NodeRow, name, populate_existing=True, with_for_update=True)


async def other_names(session: AsyncSession, node_id: str, name: str) -> list[NodeRow]:
    """Rows of the same machine under other names, not locked."""
    some = select(NodeRow).where(NodeRow.node_id == node_id, NodeRow.name != name).order_by(NodeRow.name)
    return list(await session.scalars(some.execution_options(populate_existing=True)))


async def get_many(session: AsyncSession, names: Sequence[str]) -> dict[str, NodeRow]:
    """As `get`, of some tens; locked in the order of their names, so that two who do it wait for each other."""
    some = select(NodeRow).where(NodeRow.name.in_(names)).order_by(NodeRow.name).with_for_update()
    return {row.name: row for row in await session.scalars(some.execution_options(populate_existing=True))}


async def add(session: AsyncSession, values: Mapping[str, Any]) -> bool:
    """False when there is one of that name already: another announcement was first."""
    dialect = sqlite if session.get_bind().dialect.name == "sqlite" else postgresql
    statement = dialect.insert(NodeRow).values(dict(values) | {"version": 1}).on_conflict_do_nothing()
    return (await session.execute(statement.returning(_NODES.c.name))).first() is not None


async def note_heard(session: AsyncSession, heard: Mapping[str, datetime]) -> None:
    """All in one statement, and no change of the row. It never goes back, unless it was written by a clock that was far ahead: by that
    a node that falls silent would be alive for as long.
    """
    last = _NODES.c.last_heard
    news = or_(last < bindparam("heard"), last > bindparam("ahead"))
    statement = update(_NODES).where(_NODES.c.name == bindparam("node"), news).values(last_heard=bindparam("heard"))
    await session.execute(
        statement, [{"node": name, "heard": when, "ahead": when + AHEAD} for name, when in heard.items()]
    )


async def forget_removed(session: AsyncSession, before: datetime) -> list[str]:
    """Nodes that were removed and have not been heard of for long, unless something of theirs is still to be cleaned up; their names."""
    fenced = select(NodeFenceRow.node)
    old = (NodeRow.state == NodeState.REMOVED, NodeRow.last_heard < before, NodeRow.state_at < before)
    statement = delete(NodeRow).where(*old, NodeRow.name.not_in(fenced)).returning(NodeRow.name)
    return list(await session.scalars(statement))


async def fences(session: AsyncSession) -> list[NodeFenceRow]:
    """All of them, the oldest first."""
    row = NodeFenceRow
    return list(await session.scalars(select(row).order_by(row.created_at, row.node, row.job_id, row.attempt)))


async def add_fence(session: AsyncSession, values: Mapping[str, Any]) -> bool:
    """False when it is there already."""
    dialect = sqlite if session.get_bind().dialect.name == "sqlite" else postgresql
    statement = dialect.insert(NodeFenceRow).values(dict(values)).on_conflict_do_nothing()
    return (await session.execute(statement.returning(NodeFenceRow.attempt))).first() is not None


async def move_fences(session: AsyncSession, node: str, node_id: str, to: str) -> None:
    """What was given up on that machine is from now on to be ended by it under another name."""
    row = NodeFenceRow
    for fence in await session.scalars(select(row).where(row.node == node, row.node_id == node_id)):
        values = {"job_id": fence.job_id, "attempt": fence.attempt, "node_id": node_id, "created_at": fence.created_at}
        await add_fence(session, values | {"node": to})
    await session.execute(delete(row).where(row.node == node, row.node_id == node_id))


async def remove_fence(session: AsyncSession, node: str, job_id: str, attempt: int) -> bool:
    row = NodeFenceRow
    mine = (row.node == node, row.job_id == job_id, row.attempt == attempt)
    return await changed_one(session, delete(row).where(*mine))
