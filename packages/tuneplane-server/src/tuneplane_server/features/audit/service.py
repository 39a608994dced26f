"""Records actions in the transaction of the action itself: either both happen or neither."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.features.audit import repo
from tuneplane_server.features.audit.tables import AuditRow


@dataclass(frozen=True)
class AuditEntry:
    """`action` is `<feature>.<verb>`; `data` holds names and numbers, never a secret."""

    actor: str
    action: str
    target: str
    address: str = ""
    data: dict[str, Any] = field(default_factory=dict)


class AuditService:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def record(self, session: AsyncSession, entry: AuditEntry) -> None:
        """Add an entry to the running transaction."""
        repo.add(
            session,
            AuditRow(
                time=self._clock.now(),
                actor=entry.actor[:80],
                action=entry.action,
                target=entry.target.replace("\0", "�")[:200],
                address=entry.address[:64],
                data=entry.data,
            ),
        )

    async def record_alone(self, entry: AuditEntry) -> None:
        """For what has no transaction of its own, such as a refused request."""
        async with self._database.begin() as session:
            self.record(session, entry)

    async def newest(self, *, before: int | None = None, limit: int = 100, target: str | None = None) -> list[AuditRow]:
        async with self._database.session() as session:
            return await repo.newest(session, before, limit, target)
