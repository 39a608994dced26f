"""v0.0.38 (Slurm 22.05): plain numbers, one state, an object for the environment."""

from __future__ import annotations

from typing import Any

from tuneplane_server.executors.slurm.rest.models import Component, Partition, Submission
from tuneplane_server.executors.slurm.rest.numbers import hosts, minutes, number, text, words
from tuneplane_server.executors.slurm.rest.shapes.base import Body, Shape


class PlainShape(Shape):
    names_bad_tokens = False

    def _component(self, job: Submission, component: Component) -> Body:
        asked: dict[str, Any] = {
            "name": job.name,
            "comment": job.comment,
            "partition": component.partition,
            "nodes": component.nodes,  # a list of two, as its schema has it, gives one node
            "tasks": component.nodes,
            "tasks_per_node": 1,
            "cpus_per_task": component.cpus,
            "memory_per_node": component.memory_mb,
            "gres": _gres(component),
            "time_limit": job.time_limit_minutes,
            "account": job.account,
            "qos": job.qos,
            "reservation": job.reservation,
            "nice": job.nice,
            "signal": f"{job.warning[0]}@{job.warning[1]}" if job.warning else None,
            "no_requeue": True,  # not in its document; `requeue: false`, which is, it takes for true
            "current_working_directory": job.directory,
            "standard_output": job.output,
            "open_mode": "append",  # a slurmctld that lost its newest state starts a job again
            "environment": dict(job.environment),
        }
        return {name: value for name, value in asked.items() if value is not None}

    def partition(self, body: Body) -> Partition:
        return Partition(
            name=text(body["name"]),
            states=words(body.get("state")),
            max_minutes=minutes(body.get("max_time_limit")),
            default_minutes=minutes(body.get("default_time_limit")),
            max_nodes=number(body.get("maximum_nodes_per_job")),
            nodes=hosts(body.get("nodes")),
            default="DEFAULT" in words(body.get("flags")),
        )

    def controllers_up(self, body: Body) -> bool:
        pings = body.get("pings")
        return isinstance(pings, list) and any(isinstance(each, dict) and each.get("ping") == "UP" for each in pings)


def _gres(component: Component) -> str | None:
    if not component.gpus:
        return None
    return ":".join(["gpu", *filter(None, [component.gpu_type]), str(component.gpus)])
