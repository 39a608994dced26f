"""What came of the console's own calls to nodes, written for many nodes in one transaction.

A thousand nodes prove their storage root again every ten minutes, and all of them at once after a start: a transaction for each would
keep the database from everybody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.features.audit.service import AuditEntry, AuditService
from tuneplane_server.features.nodes import repo
from tuneplane_server.features.nodes.joining import SYSTEM
from tuneplane_server.features.nodes.known import Known
from tuneplane_server.features.nodes.node import NodeProblem
from tuneplane_server.features.nodes.tables import NodeRow


@dataclass(frozen=True)
class Proof:
    """The storage root of the daemon that began at `start` is the console's, or why it is not."""

    start: str
    problem: NodeProblem | None


@dataclass(frozen=True)
class Visit:
    """`problem`: why a call did not reach the node; `called`: there was one. `proof`: what the storage root was found to be."""

    name: str
    called: bool = True
    problem: NodeProblem | None = None
    proof: Proof | None = None


def is_new(visit: Visit, known: Known) -> bool:
    """Whether anything of it is to be written: a proof always, since it is of now."""
    return visit.proof is not None or _call_is_new(visit, known.row)


class VisitWriter:
    def __init__(self, database: Database, clock: Clock, audit: AuditService) -> None:
        self._database, self._clock, self._audit = database, clock, audit

    async def write(self, visits: Sequence[Visit]) -> bool:
        """Whether something changed that decides about work. Nodes whose row is gone are left out."""
        news = False
        async with self._database.begin() as session:
            rows = await repo.get_many(session, [visit.name for visit in visits])
            for visit in visits:
                row = rows.get(visit.name)
                if row is None:
                    continue
                changed = self._note_call(row, visit)
                changed = self._note_proof(session, row, visit.proof) or changed
                news = news or changed
        return news

    def _note_call(self, row: NodeRow, visit: Visit) -> bool:
        if not _call_is_new(visit, row):
            return False
        since = self._clock.now().isoformat() if row.unreachable is None else row.unreachable["since"]
        row.unreachable = None if visit.problem is None else {**_to_json(visit.problem), "since": since}
        row.version += 1
        return True

    def _note_proof(self, session: AsyncSession, row: NodeRow, proof: Proof | None) -> bool:
        if proof is None:
            return False
        before = None if row.refusal is None else row.refusal["code"]
        after = None if proof.problem is None else proof.problem.code
        news = before != after or row.proved_start != proof.start
        if news:
            action = "node.prove" if proof.problem is None else "node.refuse"
            data = {} if proof.problem is None else {"code": proof.problem.code, **proof.problem.values}
            self._audit.record(session, AuditEntry(SYSTEM, action, row.name, row.address[:64], data))
        row.proved_at, row.proved_start = self._clock.now(), proof.start
        row.refusal = None if proof.problem is None else _to_json(proof.problem)
        row.version += 1
        return news


def _call_is_new(visit: Visit, row: NodeRow) -> bool:
    before = None if row.unreachable is None else row.unreachable["code"]
    return visit.called and before != (None if visit.problem is None else visit.problem.code)


def _to_json(problem: NodeProblem) -> dict[str, Any]:
    return {"code": problem.code, "values": dict(problem.values), "detail": problem.detail}
