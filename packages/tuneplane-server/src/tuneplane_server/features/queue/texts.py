"""Why a job waits, as a sentence in the reader's language."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tuneplane.i18n import N_, _
from tuneplane_server.domain.executor_queue import queue_name
from tuneplane_server.domain.line import Wait, Waiting, WaitKind
from tuneplane_server.domain.placement import PoolRequest
from tuneplane_server.domain.queue_facts import FreeOnNode, Holder
from tuneplane_server.features.queue.pool_words import claim_text

NODES_TOLD = 4
_QUOTA = {
    "gpus": N_("{who} uses {used} of {limit} GPUs at once, and this run wants {wanted}"),
    "jobs": N_("{who} has {used} of {limit} runs at once"),
    "gpu_hours_day": N_("{who} has {used} of {limit} GPU-hours of the day in use or reserved, and this run may take {wanted}"),
    "gpu_hours_month": N_(
        "{who} has {used} of {limit} GPU-hours of the month in use or reserved, and this run may take {wanted}"
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Told:
    """All that the sentence is made of. `more_holders`: beside `holders`; `own_queue`: the executor that has one, empty for none."""

    wait: Wait
    job: Waiting
    free: Sequence[FreeOnNode]
    holders: Sequence[Holder]
    more_holders: int
    now: datetime
    own_queue: str = ""


def waiting_text(told: Told) -> str:
    return _TEXTS[told.wait.kind](told)


def needs_text(pools: Sequence[PoolRequest]) -> str:
    """`8 h200 on one node`, several pools joined by +."""
    return " + ".join(_need(pool) for pool in pools)


def _next(told: Told) -> str:
    if not told.own_queue:
        return _("it is its turn: it starts in a moment")
    return _("it is its turn: it goes to the queue of {queue} in a moment, which decides when it starts").format(
        queue=queue_name(told.own_queue)
    )


def _room(told: Told) -> str:
    wait = told.wait
    clauses = [_("needs {needs}").format(needs=needs_text(told.job.pools)), _free(told)]
    if told.holders:
        clauses.append(_held(told))
    clauses.append(_("number {position} in line").format(position=wait.position))
    if wait.estimate is not None:
        clauses.append(_("starts at {time} at the latest").format(time=time_text(wait.estimate, told.now)))
    return joined(clauses)


def _turn(told: Told) -> str:
    return joined(
        [
            _("needs {needs}").format(needs=needs_text(told.job.pools)),
            _("it would fit now, but would put back run {run}, which stands before it").format(run=told.wait.behind),
            _("number {position} in line").format(position=told.wait.position),
        ]
    )


def _quota(told: Told) -> str:
    account, block = told.wait.account, told.wait.block
    assert account is not None
    assert block is not None
    who = _("user {name}") if account.scope == "user" else _("project {name}")
    clauses = [
        _(_QUOTA[block.rule]).format(
            who=who.format(name=account.name),
            used=f"{block.used:.6g}",
            limit=f"{block.limit:.6g}",
            wanted=f"{block.wanted:.6g}",
        )
    ]
    if told.wait.behind is not None:
        clauses = [
            _("run {run} waits before it for the same quota").format(run=told.wait.behind),
            _("needs {needs}").format(needs=needs_text(told.job.pools)),
        ]
    if block.until is not None:
        clauses.append(_("the count begins anew at {time}").format(time=time_text(block.until, told.now)))
    return joined(clauses)


def _resting(told: Told) -> str:
    assert told.job.not_before is not None
    time = time_text(told.job.not_before, told.now)
    return _("attempt {attempt} rests until {time} before it starts").format(attempt=told.job.attempt, time=time)


_TEXTS: dict[WaitKind, Callable[[Told], str]] = {
    WaitKind.NEXT: _next,
    WaitKind.CARDS: _room,
    WaitKind.CPUS: _room,
    WaitKind.TURN: _turn,
    WaitKind.QUOTA: _quota,
    WaitKind.PAUSED: lambda told: _("paused: it waits until somebody resumes it"),
    WaitKind.APPROVAL: lambda told: _("it waits for an administrator to approve it"),
    WaitKind.RESTING: _resting,
    WaitKind.MACHINES: lambda told: _("no machine that could run it is there for now: it needs {needs}").format(
        needs=needs_text(told.job.pools)
    ),
    WaitKind.DRAINED: lambda told: _(
        "nothing is started for now, because of maintenance; number {position} in line"
    ).format(position=told.wait.position),
}


def _need(pool: PoolRequest) -> str:
    if pool.gpus_per_node:
        what = f"{pool.gpus_per_node} {pool.profile}"
    else:
        what = claim_text(pool.cpus, pool.memory_gb) or _("room for {profile}").format(profile=pool.profile)
    if pool.nodes == 1:
        return _("{what} on one node").format(what=what)
    return _("{what} on each of {nodes} nodes").format(what=what, nodes=pool.nodes)


def _free(told: Told) -> str:
    if told.job.gpus:
        some = [item for item in told.free if item.gpus]
        parts = [_("{free} free on {node}").format(free=item.gpus, node=item.node) for item in some[:NODES_TOLD]]
        if not parts:
            return _("none free")
    else:
        some = list(told.free)
        parts = [
            _("{cpus} CPUs and {memory_gb} GB free on {node}").format(
                cpus=f"{item.cpus:g}", memory_gb=f"{item.memory_gb:g}", node=item.node
            )
            for item in some[:NODES_TOLD]
        ]
    if len(some) > NODES_TOLD:
        parts.append(_("some on {count} more").format(count=len(some) - NODES_TOLD))
    return _listed(parts)


def _held(told: Told) -> str:
    runs = [_("run {run} of {owner}").format(run=item.job_id, owner=item.owner) for item in told.holders]
    if told.more_holders:
        runs.append(_("{count} more").format(count=told.more_holders))
    return _("held by {runs}").format(runs=_listed(runs))


def time_text(time: datetime, now: datetime) -> str:
    """In UTC: the server does not know where its reader is."""
    pattern = "%H:%M UTC" if time.astimezone(UTC).date() == now.astimezone(UTC).date() else "%Y-%m-%d %H:%M UTC"
    return time.astimezone(UTC).strftime(pattern)


def joined(clauses: Iterable[str]) -> str:
    return _("; ").join(clauses)


def _listed(items: Iterable[str]) -> str:
    return _(", ").join(items)
