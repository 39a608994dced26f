"""Writes that must happen once: their row count says whether we were the one."""

from __future__ import annotations

from sqlalchemy import Delete, Update
from sqlalchemy.engine import CursorResult
from sqlalchemy.ext.asyncio import AsyncSession


async def changed_one(session: AsyncSession, statement: Update | Delete) -> bool:
    """Run the statement; True when it changed exactly one row."""
    result = await session.execute(statement.execution_options(synchronize_session=False))
    assert isinstance(result, CursorResult)
    return bool(result.rowcount == 1)
