"""What is the same in the jobs of every data version: pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from tuneplane_server.executors.slurm.rest.models import SlurmJob
from tuneplane_server.executors.slurm.rest.numbers import cards, hosts, minutes, moment, number, text, words

# The states that slurm.h counts as finished; with COMPLETING the end is not over yet, but it is decided.
_ENDED = frozenset(
    {
        "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
    }
)  # fmt: skip


def ended(states: Iterable[str]) -> bool:
    return not _ENDED.isdisjoint(states)


def started(states: frozenset[str], start: datetime | None, nodes: tuple[str, ...]) -> datetime | None:
    """When it started, None for one that never did: a pending job's start is a guess, and one that was cancelled while it waited has
    its end for a start, but no nodes."""
    return start if nodes and "PENDING" not in states else None


def wait_status(status: int | None) -> tuple[int | None, int | None]:
    """(exit code, signal) of a status as wait(2) has it."""
    if status is None:
        return None, None
    signal = status & 0x7F
    return (None, signal) if signal else (status >> 8 & 0xFF, None)


def gpus_asked(body: dict[str, Any]) -> int:
    """Cards of all machines together that a job of slurmctld's asked for."""
    from_total = cards(body.get("tres_req_str"))
    if from_total is not None:
        return from_total
    nodes = number(body.get("node_count")) or 1
    tasks = number(body.get("tasks")) or nodes
    counts = {"tres_per_job": 1, "tres_per_node": nodes, "tres_per_task": tasks}
    return max((count * (cards(body.get(name)) or 0) for name, count in counts.items()), default=0)


def gpus_allocated(body: dict[str, Any], states: frozenset[str], asked: int) -> int | None:
    """Cards that a job of slurmctld's holds or held. `gres_detail` names them machine by machine and is there while it runs;
    `tres_alloc_str` only counts cards where the cluster accounts for them (AccountingStorageTRES)."""
    if "PENDING" in states:
        return 0
    detail = body.get("gres_detail")
    if isinstance(detail, list) and detail:
        return sum(cards(each) or 0 for each in detail)
    allocated = cards(body.get("tres_alloc_str"))
    if allocated is not None:
        return allocated
    # A running job whose resources are told without a card has none, whatever it asked for: a request can be ignored.
    return 0 if not asked or ("RUNNING" in states and body.get("job_resources")) else None


def held(body: dict[str, Any]) -> SlurmJob:
    """A job of slurmctld's. Raises KeyError, TypeError or ValueError when it is none."""
    states = words(body["job_state"])
    leader = number(body.get("het_job_id")) or None
    start, end = moment(body.get("start_time")), moment(body.get("end_time"))
    nodes = hosts(body.get("nodes"))
    exit_code, signal = end_of(body.get("exit_code")) if nodes and ended(states) else (None, None)
    asked = gpus_asked(body)
    return SlurmJob(
        id=int(body["job_id"]),
        name=text(body["name"]),
        comment=text(body.get("comment")),
        user=text(body.get("user_name")),
        states=states,
        reason=text(body.get("state_reason")),
        submitted_at=moment(body.get("submit_time")),
        eligible_at=moment(body.get("eligible_time")),
        started_at=started(states, start, nodes),
        estimated_start=start if "PENDING" in states else None,
        ended_at=end if ended(states) else None,
        exit_code=exit_code,
        signal=signal,
        nodes=nodes,
        partition=text(body.get("partition")),
        account=text(body.get("account")),
        qos=text(body.get("qos")),
        priority=number(body.get("priority")),
        time_limit_minutes=minutes(body.get("time_limit")),
        restarts=number(body.get("restart_cnt")) or 0,
        preempted_at=moment(body.get("preempt_time")),
        het_id=leader,
        het_offset=number(body.get("het_job_offset")) if leader else None,
        gpus_allocated=gpus_allocated(body, states, asked),
        gpus_asked=asked,
        nodes_asked=number(body.get("node_count")),
        directory=text(body.get("current_working_directory")),
    )


def ran(body: dict[str, Any]) -> SlurmJob:
    """A job of slurmdbd's, which all versions describe alike but for the wrapping of numbers."""
    state = body.get("state")
    states = words(state.get("current") if isinstance(state, dict) else state)
    times = body.get("time")
    times = times if isinstance(times, dict) else {}
    start, end = moment(times.get("start")), moment(times.get("end"))
    comment = body.get("comment")
    het = body.get("het")
    het = het if isinstance(het, dict) else {}
    leader = number(het.get("job_id")) or None
    nodes = hosts(body.get("nodes"))
    exit_code, signal = end_of(body.get("exit_code")) if nodes and ended(states) else (None, None)
    if exit_code == 0 and "FAILED" in states:  # 22.05's slurmrestd says 0 whatever it was
        exit_code = None
    tres = body.get("tres")
    tres = tres if isinstance(tres, dict) else {}
    return SlurmJob(
        id=int(body["job_id"]),
        name=text(body["name"]),
        comment=text(comment.get("job") if isinstance(comment, dict) else comment),
        user=text(body.get("user")),
        states=states,
        reason=text(state.get("reason")) if isinstance(state, dict) else "",
        submitted_at=moment(times.get("submission")),
        eligible_at=moment(times.get("eligible")),
        started_at=started(states, start, nodes),
        ended_at=end if ended(states) else None,
        exit_code=exit_code,
        signal=signal,
        nodes=nodes,
        partition=text(body.get("partition")),
        account=text(body.get("account")),
        qos=text(body.get("qos")),
        priority=number(body.get("priority")),
        time_limit_minutes=minutes(times.get("limit")),
        restarts=number(body.get("restart_cnt")) or 0,
        het_id=leader,
        het_offset=number(het.get("job_offset")) if leader else None,
        gpus_allocated=_accounted_cards(tres.get("allocated")),
        gpus_asked=_accounted_cards(tres.get("requested")) or 0,
        nodes_asked=number(body.get("allocation_nodes")) or None,
        directory=text(body.get("working_directory")),
        source="accounting",
    )


def end_of(exit_code: object) -> tuple[int | None, int | None]:
    """(exit code, signal) of `{status, return_code, signal: {id | signal_id, name}}`."""
    if not isinstance(exit_code, dict):
        return wait_status(number(exit_code))
    signal = exit_code.get("signal")
    killed = number(signal.get("id", signal.get("signal_id"))) if isinstance(signal, dict) else None
    if killed:
        return None, killed
    return number(exit_code.get("return_code")), None


def _accounted_cards(resources: object) -> int | None:
    """`[{"type": "gres", "name": "gpu", "count": 8}]`; with a type the name is `gpu:h200`. None where the cluster does not account
    for cards, which nobody can tell from a job without any."""
    if not isinstance(resources, list):
        return None
    named = ",".join(
        f"gres/{each.get('name')}={number(each.get('count')) or 0}"
        for each in resources
        if isinstance(each, dict) and each.get("type") == "gres"
    )
    return cards(named)
