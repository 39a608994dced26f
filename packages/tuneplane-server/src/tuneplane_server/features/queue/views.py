"""The queue as its readers see it: the shapes of the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from pydantic import BaseModel

from tuneplane_server.domain.line import Wait, WaitKind
from tuneplane_server.domain.placement import PoolRequest
from tuneplane_server.features.queue.executor_texts import in_queue_text, time_of
from tuneplane_server.features.queue.service import PlanOf, RoomFacts, wanted_of
from tuneplane_server.features.queue.texts import Told, waiting_text

IN_EXECUTOR_QUEUE = "executor"
_WANTS_ROOM = (WaitKind.CARDS, WaitKind.CPUS, WaitKind.TURN)


class NeedView(BaseModel):
    """`nodes` machines with this much each; 0: no claim."""

    pool: str
    profile: str
    nodes: int
    gpus_per_node: int
    cpus: float
    memory_gb: float


class FreeView(BaseModel):
    """`free`: cards of the profile, or CPUs where the profile has no cards."""

    node: str
    profile: str
    free: float


class HolderView(BaseModel):
    """`until`: when it has given them back at the latest; null when nobody knows."""

    job_id: str
    owner: str
    gpus: int
    until: datetime | None


class WaitingView(BaseModel):
    """Why a job does not run yet. `position`: in line, from 1, null for who does not stand in it; `ahead`: how many before.

    `kind`: next, cards, cpus, turn, quota, paused, awaiting-approval, resting, machines, drained, executor. `free` and `held_by`
    are told where room is what is missing. `estimate`: when it starts at the latest as far as anybody knows, null when nobody does.
    `executor`: it stands in the executor's own queue (Slurm's), which gives position and estimate where it knows them.
    """

    kind: str
    text: str
    position: int | None
    ahead: int | None
    needs: list[NeedView]
    free: list[FreeView]
    held_by: list[HolderView]
    estimate: datetime | None


class LineItem(BaseModel):
    """A place in the line. Of other people's jobs only `position`, `owner` and `needs` are told."""

    position: int | None
    owner: str
    needs: list[NeedView]
    mine: bool
    id: str | None = None
    project: str | None = None
    experiment: str | None = None
    display_name: str | None = None
    waiting: WaitingView | None = None


class ExecutorQueue(BaseModel):
    """`name`: whose it is (`Slurm`). `items`: who stands in it, as it was seen; the longest wait first where it gives no places."""

    name: str
    items: list[LineItem]


class LinePage(BaseModel):
    """`total`: jobs that stand in line, whoever's. `executor_queue`: the executor's own, which decides what starts when; null where
    it has none, and on further pages."""

    items: list[LineItem]
    total: int
    next_cursor: str | None
    executor_queue: ExecutorQueue | None = None


def waiting_view(made: PlanOf, wait: Wait) -> WaitingView:
    """The wait in the reader's language."""
    job = made.waiting[wait.job_id]
    room, free, held_by = RoomFacts([], [], 0), [], []
    if wait.kind in _WANTS_ROOM:
        room = made.room_for(job.pools)
        free, held_by = made.once(("shown", wanted_of(job.pools)), partial(_shown, room, cards=job.gpus > 0))
    return WaitingView(
        kind=str(wait.kind),
        text=waiting_text(Told(wait, job, room.free, room.holders, room.more, made.made_at, made.own_queue)),
        position=wait.position,
        ahead=None if wait.position is None else wait.position - 1,
        needs=made.once(("needs", job.pools), partial(needs_view, job.pools)),
        free=free,
        held_by=held_by,
        estimate=wait.estimate,
    )


def executor_view(data: Mapping[str, Any], demand: Sequence[Mapping[str, Any]]) -> WaitingView:
    """Of a run in the executor's own queue. `data`: of its condition `executor-queue`; `demand`: `JobRow.demand`."""
    position = data.get("position")
    return WaitingView(
        kind=IN_EXECUTOR_QUEUE,
        text=in_queue_text(data),
        position=position,
        ahead=None if position is None else position - 1,
        needs=needs_view([PoolRequest(**pool) for pool in demand]),
        free=[],
        held_by=[],
        estimate=time_of(data.get("starts_at")),
    )


def _shown(room: RoomFacts, *, cards: bool) -> tuple[list[FreeView], list[HolderView]]:
    free = [
        FreeView(node=item.node, profile=item.profile, free=item.gpus if cards else item.cpus) for item in room.free
    ]
    held_by = [
        HolderView(job_id=item.job_id, owner=item.owner, gpus=item.gpus, until=item.until) for item in room.holders
    ]
    return free, held_by


def needs_view(pools: Sequence[PoolRequest]) -> list[NeedView]:
    return [
        NeedView(
            pool=pool.name,
            profile=pool.profile,
            nodes=pool.nodes,
            gpus_per_node=pool.gpus_per_node,
            cpus=pool.cpus,
            memory_gb=pool.memory_gb,
        )
        for pool in pools
    ]
