"""What a data version of slurmrestd has to be translated for: one small class for each shape of its data."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tuneplane_server.executors.slurm.rest.models import (
    Association,
    Component,
    Partition,
    SlurmJob,
    SlurmNode,
    Submission,
)
from tuneplane_server.executors.slurm.rest.numbers import cards, cards_by_type, number, text, words
from tuneplane_server.executors.slurm.rest.shapes.jobs import held, ran

type Body = dict[str, Any]


class Shape(ABC):
    """`version`: as it stands in paths (`v0.0.42`). Objects that are given come from answers of that version.

    `names_bad_tokens`: a token that is not taken is always told as one, never like a server error.
    """

    names_bad_tokens = True

    def __init__(self, version: str) -> None:
        self.version = version

    def submission(self, job: Submission) -> Body:
        """The body of a submit."""
        components = [self._component(job, each) for each in job.components]
        described = {"job": components[0]} if len(components) == 1 else {"jobs": components}
        return {"script": job.script, **described}

    @abstractmethod
    def _component(self, job: Submission, component: Component) -> Body:
        """What is asked for with one component; all that is asked for, where it is the only one."""

    def job(self, body: Body) -> SlurmJob:
        """A job of slurmctld's. Raises KeyError, TypeError or ValueError when it is none."""
        return held(body)

    def accounted(self, body: Body) -> SlurmJob:
        """A job of slurmdbd's. Raises as `job` does."""
        return ran(body)

    def accounting_query(self, name: str | None, since: datetime | None) -> Mapping[str, str]:
        """Parameters of a search in the accounting: jobs that were there at `since` or later. 22.05 cannot choose by user."""
        # `uts`: seconds since 1970, the one form of parse_time.c that no time zone changes.
        asked = {"job_name": name, "start_time": f"uts{int(since.timestamp())}" if since else None}
        return {key: value for key, value in asked.items() if value}

    def association(self, body: Body) -> tuple[str, Association]:
        """(user, what it may book on); every known version has it alike."""
        qos = tuple(str(name) for name in body.get("qos") or ())
        return str(body.get("user") or ""), Association(str(body["account"]), qos, str(body.get("partition") or ""))

    def node(self, body: Body) -> SlurmNode:
        return SlurmNode(
            name=text(body["name"]),
            address=text(body.get("address")),
            states=words(body.get("state")) | words(body.get("state_flags")),
            reason=text(body.get("reason")),
            cpus=usable_cpus(body),
            memory_mb=number(body.get("real_memory")) or 0,
            gpus=cards_by_type(body.get("gres")),
            gpus_used=cards(body.get("gres_used")),
            cpus_used=number(body.get("alloc_cpus")),
            memory_used_mb=number(body.get("alloc_memory")),
            architecture=text(body.get("architecture")),
            partitions=tuple(each for each in body.get("partitions") or () if isinstance(each, str)),
        )

    @abstractmethod
    def partition(self, body: Body) -> Partition: ...

    @abstractmethod
    def controllers_up(self, body: Body) -> bool:
        """Whether one of the controllers in the answer of a ping is there."""

    @property
    def prefix(self) -> str:
        return f"/slurm/{self.version}"

    @property
    def accounting_prefix(self) -> str:
        return f"/slurmdb/{self.version}"


def release(body: Mapping[str, Any] | None) -> str:
    """Slurm's own version in the `meta` of any answer, empty when it is not there."""
    meta = (body or {}).get("meta")
    for name in ("slurm", "Slurm"):
        found = meta.get(name) if isinstance(meta, dict) else None
        if isinstance(found, dict) and isinstance(found.get("release"), str):
            return found["release"]
    return ""


def listed(body: Mapping[str, Any], name: str) -> list[Body]:
    """The objects of a list in an answer. Raises ValueError when there is no such list."""
    found = body.get(name)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError(f"its answer holds no list of {name}")
    return found


def usable_cpus(node: Mapping[str, Any]) -> int:
    """Without those that Slurm keeps for itself (CoreSpecCount, CpuSpecList): a job that asks for these as well fits nowhere.
    Newer versions say `effective_cpus`; of 22.05 only the trackable resources of the node tell."""
    listed_as = re.search(r"(?:^|,)cpu=([0-9]{1,9})(?:,|$)", text(node.get("tres")))
    found = (number(node.get("cpus")), number(node.get("effective_cpus")), number(listed_as[1]) if listed_as else None)
    return min((each for each in found if each), default=0)
