"""Making a plan where the executor has a queue of its own, as Slurm has: that one decides on what starts when.

Ours passes a job on as soon as nobody holds it back and its quotas allow it, in the order of the fair share. It knows of no
machines: what a job gets is counted under names that stand for none, so that holds and quotas count it as anywhere else, and no
two attempts can ever meet on one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from tuneplane_server.domain.line import AccountKey, Allowance, Placement, Wait, Waiting, WaitKind
from tuneplane_server.domain.placement import Assignment, NodeRoom
from tuneplane_server.domain.quotas import Account

_SEPARATOR = "/"  # is in no name of a machine


class PassingOn:
    """One pass over the queue. `executor`: its name, which begins the names of what is counted."""

    def __init__(self, executor: str, now: datetime, accounts: Mapping[AccountKey, Account], *, drained: bool) -> None:
        self._executor, self._drained = executor, drained
        self._allowance = Allowance(now, accounts)
        self.placements: list[Placement] = []
        self.rooms: dict[str, NodeRoom] = {}  # what is free is the executor's own matter
        self._position = 0

    def will_come(self, profiles: Iterable[str]) -> None:
        """Nobody is put back here by who comes later."""

    def consider(self, job: Waiting) -> Wait:
        """Pass the job on, or say why it waits."""
        over = self._allowance.over_quota(job)
        if over is not None:
            return over
        self._position += 1
        if self._drained:
            return Wait(job.job_id, WaitKind.DRAINED, self._position)
        self._allowance.take(job)
        self.placements.append(Placement(job.job_id, job.attempt, counted(self._executor, job)))
        return Wait(job.job_id, WaitKind.NEXT, self._position)


def counted(executor: str, job: Waiting) -> tuple[Assignment, ...]:
    """What the job asks for, on machines that stand for none; the position is the machine rank."""
    machines = [pool for pool in job.pools for _machine in range(pool.nodes)]
    return tuple(
        Assignment(
            pool.name,
            f"{executor}{_SEPARATOR}{job.job_id}-{job.attempt}{_SEPARATOR}{rank}",
            tuple(range(pool.gpus_per_node)),
            pool.cpus,
            pool.memory_gb,
        )
        for rank, pool in enumerate(machines)
    )


def is_counted(node: str) -> bool:
    """Whether the name stands for no machine: the executor has not said yet which one it is."""
    return _SEPARATOR in node


def real_nodes(nodes: Iterable[str]) -> tuple[str, ...]:
    """Those of the names that are of machines, in their order, each once."""
    return tuple(dict.fromkeys(node for node in nodes if not is_counted(node)))
