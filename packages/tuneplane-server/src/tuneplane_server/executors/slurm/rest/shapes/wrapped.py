"""v0.0.40 (Slurm 23.11) and newer: numbers as {set, infinite, number}, lists of states, GPUs as trackable resources.

Fields that came or went between them are taken where they are; the versions differ in nothing else that is used here.
"""

from __future__ import annotations

from typing import Any

from tuneplane_server.executors.slurm.rest.models import Component, Partition, Submission
from tuneplane_server.executors.slurm.rest.numbers import hosts, minutes, number, text, words
from tuneplane_server.executors.slurm.rest.shapes.base import Body, Shape


class WrappedShape(Shape):
    def _component(self, job: Submission, component: Component) -> Body:
        signal, seconds = job.warning or (None, 0)
        asked: dict[str, Any] = {
            "name": job.name,
            "comment": job.comment,
            "partition": component.partition,
            "nodes": str(component.nodes),
            "tasks": component.nodes,
            "tasks_per_node": 1,
            "cpus_per_task": component.cpus,
            "memory_per_node": _wrapped(component.memory_mb),
            "tres_per_node": _tres(component),  # `gres` is ignored with a warning, and the job has no card
            "time_limit": _wrapped(job.time_limit_minutes),
            "account": job.account,
            "qos": job.qos,
            "reservation": job.reservation,
            "nice": job.nice,
            "kill_warning_signal": signal,
            "kill_warning_delay": _wrapped(seconds) if signal else None,
            "requeue": False,
            "current_working_directory": job.directory,
            "standard_output": job.output,
            "open_mode": ["APPEND"],  # a slurmctld that lost its newest state starts a job again
            "environment": [f"{name}={value}" for name, value in job.environment.items()],
        }
        return {name: value for name, value in asked.items() if value is not None}

    def partition(self, body: Body) -> Partition:
        state, most, usual, nodes = (_inner(body, name) for name in ("partition", "maximums", "defaults", "nodes"))
        return Partition(
            name=text(body["name"]),
            states=words(state.get("state")),
            max_minutes=minutes(most.get("time")),
            default_minutes=minutes(usual.get("time")),
            max_nodes=number(most.get("nodes")),
            nodes=hosts(nodes.get("configured")),
            default="DEFAULT" in words(body.get("flags")),
        )

    def controllers_up(self, body: Body) -> bool:
        pings = body.get("pings")
        there = [each for each in pings if isinstance(each, dict)] if isinstance(pings, list) else []
        # `responding` came with v0.0.42, which calls `pinged` the old word for it.
        return any(each.get("responding", each.get("pinged") == "UP") for each in there)


def _wrapped(value: int | None) -> Body | None:
    return None if value is None else {"set": True, "infinite": False, "number": value}


def _tres(component: Component) -> str | None:
    if not component.gpus:
        return None
    return ":".join(["gres/gpu", *filter(None, [component.gpu_type]), str(component.gpus)])


def _inner(body: Body, name: str) -> Body:
    found = body.get(name)
    return found if isinstance(found, dict) else {}
