"""Presence of the consoles that share a database: each keeps a row of its own fresh and sees who else is there.

Clocks of machines differ, so nobody compares another's time with its own: a console is dead when its row has not changed for
`DEAD_SECONDS` of the observer's own time, or at once when it was a process of this machine that is no more.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_node.engine.supervisor.procfs import ProcessIdentity
from tuneplane_server.background.tables import ConsoleRow
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.replicas import Replica

BEAT_SECONDS = 3.0
DEAD_SECONDS = 15.0


@dataclass(frozen=True)
class ConsoleProcess:
    """A process by pid, start time and boot, and the PID namespace in which the pid means something."""

    identity: ProcessIdentity
    namespace: int

    @classmethod
    def current(cls) -> ConsoleProcess:
        return cls(ProcessIdentity.of(os.getpid()), _namespace())

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ConsoleProcess:
        return cls(ProcessIdentity.from_json(value), int(value["namespace"]))

    def to_json(self) -> dict[str, Any]:
        return {**self.identity.to_json(), "namespace": self.namespace}

    def surely_dead(self, here: ConsoleProcess) -> bool:
        """True only for a process of the same boot and namespace as `here` that has ended."""
        same_place = (self.namespace, self.identity.boot_id) == (here.namespace, here.identity.boot_id)
        return same_place and not self.identity.alive()


class Consoles:
    """This console among the others. `instance`: of its data directory; `locked`: we hold the lock of that directory, so that
    whoever was there before us is dead, also when it ran in another container.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        instance: str,
        *,
        redis: bool,
        one_console: bool,
        locked: bool = False,
    ) -> None:
        self._database, self._clock, self._instance, self._locked = database, clock, instance, locked
        self._redis, self._one_console = redis, one_console
        self.id = secrets.token_hex(8)
        self.host = socket.gethostname()[:253]
        self._process = ConsoleProcess.current()
        self._started_at = clock.now()
        self._changed: dict[str, tuple[datetime, datetime]] = {}  # id -> (its seen_at, when we first saw that)
        self.live: list[Replica] = [self._mine()]

    async def beat(self) -> list[Replica]:
        """Renew our row, remove those of the dead, and return the living; we are one of them."""
        now = self._clock.now()
        async with self._database.begin() as session:
            await self._renew(session, now)
        # Only now, in a transaction of its own: of two that come at once, whoever commits later sees the other.
        async with self._database.session() as session:
            rows = list(await session.scalars(select(ConsoleRow).order_by(ConsoleRow.started_at, ConsoleRow.id)))
        dead = [row for row in rows if self._dead(row, now)]
        if dead:
            await self._remove(dead)
        living = [row for row in rows if row not in dead]
        self._changed = {key: seen for key, seen in self._changed.items() if key in {row.id for row in living}}
        self.live = [Replica(row.id, row.redis, row.one_console) for row in living]
        return self.live

    async def leave(self) -> None:
        """At a clean stop: the others need not wait."""
        async with self._database.begin() as session:
            await session.execute(delete(ConsoleRow).where(ConsoleRow.id == self.id))

    def _mine(self) -> Replica:
        return Replica(self.id, self._redis, self._one_console)

    async def _renew(self, session: AsyncSession, now: datetime) -> None:
        """Also after others removed it: a console that was paused for long is alive again."""
        insert = sqlite.insert if self._database.is_sqlite else postgresql.insert
        values = {
            "id": self.id,
            "instance": self._instance,
            "host": self.host,
            "process": self._process.to_json(),
            "redis": self._redis,
            "one_console": self._one_console,
            "started_at": self._started_at,
            "seen_at": now,
        }
        statement = insert(ConsoleRow).values(values)
        await session.execute(statement.on_conflict_do_update(index_elements=["id"], set_={"seen_at": now}))

    async def _remove(self, dead: list[ConsoleRow]) -> None:
        """Unless it has moved since we looked."""
        async with self._database.begin() as session:
            for row in dead:
                gone = delete(ConsoleRow).where(ConsoleRow.id == row.id, ConsoleRow.seen_at == row.seen_at)
                await session.execute(gone.execution_options(synchronize_session=False))

    def _dead(self, row: ConsoleRow, now: datetime) -> bool:
        if row.id == self.id:
            return False
        if self._locked and row.instance == self._instance:
            return True
        if ConsoleProcess.from_json(row.process).surely_dead(self._process):
            return True
        seen_at, first = self._changed.get(row.id, (None, now))
        if seen_at != row.seen_at:
            first = now
        self._changed[row.id] = (row.seen_at, first)
        return (now - first).total_seconds() > DEAD_SECONDS


def _namespace() -> int:
    """Inode of the PID namespace; 0 where the kernel shows none, which is then the same for all."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0
