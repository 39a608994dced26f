"""What a Slurm partition never gives: machines of that kind, so many of them, so much time. Each refusal names the setting to change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.domain.placement import PoolRequest
from tuneplane_server.executors.port import NodeInfo
from tuneplane_server.features.hardware.service import CPU_PROFILE, all_machines
from tuneplane_server.features.jobs.admission.context import AdmissionContext
from tuneplane_server.features.jobs.admission.duration import longest_run
from tuneplane_server.features.queue.pool_words import closest_text, wants_text


def check(context: AdmissionContext) -> Iterator[Refusal]:
    if context.slurm is None or not context.nodes:
        return  # another executor, or nobody could ever be asked: then nothing is known
    yield from too_large(context)
    yield from _too_long(context)


def too_large(context: AdmissionContext) -> Iterator[Refusal]:
    """Pools that no partition of theirs can ever have. What no machine at all has is refused elsewhere."""
    if context.slurm is None:
        return
    largest = {profile.name: profile.gpus_per_node for profile in context.profiles}
    for index, pool in enumerate(context.pools):
        cards = pool.gpus_per_node
        if cards > largest.get(pool.profile, -1) or (pool.profile == CPU_PROFILE) != (cards == 0):
            continue
        partition = partition_of(context, pool.profile)
        own = nodes_in(context.nodes, partition)
        fitting = [node for node in own if _fits(node, pool)]
        most = _limit(own, partition, "machines")
        if len(fitting) < pool.nodes:
            yield _no_such_machines(context, pool, partition, len(fitting), index)
        elif most is not None and pool.nodes > most:
            yield Refusal(
                "pool-impossible",
                _("the partition {partition} gives a job {most} machines at most, and the pool {name} wants {nodes}").format(
                    partition=partition, most=most, name=pool.name, nodes=pool.nodes
                ),
                _("ask for fewer machines, or have TUNEPLANE_SLURM_PARTITION name a partition that gives more"),
                field=f"spec.resources.pools.{index}.nodes",
            )  # fmt: skip


def partition_of(context: AdmissionContext, profile: str) -> str | None:
    """Where jobs of a profile go; None when neither the settings nor Slurm say it."""
    assert context.slurm is not None
    named = context.slurm.partitions.of(profile)
    if named is not None:
        return named
    return next(
        (name for node in context.nodes for name, limits in _partitions(node).items() if limits.get("default")), None
    )


def nodes_in(nodes: Sequence[NodeInfo], partition: str | None) -> list[NodeInfo]:
    return [node for node in nodes if partition is None or partition in _partitions(node)]


def _too_long(context: AdmissionContext) -> Iterator[Refusal]:
    """By the shortest limit of the pools' partitions: the components of a heterogeneous job end together."""
    assert context.slurm is not None
    limits = [
        (minutes, partition)
        for partition in {partition_of(context, pool.profile) for pool in context.pools}
        if (minutes := _limit(context.nodes, partition, "minutes")) is not None
    ]
    if not limits:
        return
    most, partition = min(limits, key=lambda item: item[0])
    wanted, default = longest_run(context), context.slurm.time_limit_minutes
    if wanted is not None and math.ceil(wanted / 60) > most:
        yield Refusal(
            "duration-over-limit",
            _("the partition {partition} ends jobs after {most} minutes, and this one may take {wanted} s").format(
                partition=partition, most=most, wanted=wanted
            ),
            _("ask for at most {seconds} s with --max-duration, or have TUNEPLANE_SLURM_PARTITION name a partition with a longer limit").format(
                seconds=most * 60
            ),
            field="spec.limits.max_duration",
        )  # fmt: skip
    elif wanted is None and default is not None and default > most:
        yield Refusal(
            "duration-over-limit",
            _("the console gives jobs without a limit {default} minutes, and the partition {partition} ends them after {most}").format(
                default=default, partition=partition, most=most
            ),
            _("ask for at most {seconds} s with --max-duration, or have TUNEPLANE_SLURM_TIME_LIMIT lowered").format(
                seconds=most * 60
            ),
            field="spec.limits.max_duration",
        )  # fmt: skip


def _no_such_machines(
    context: AdmissionContext, pool: PoolRequest, partition: str | None, fitting: int, index: int
) -> Refusal:
    elsewhere = sorted(
        {name for node in context.nodes if _fits(node, pool) for name in _partitions(node) if name != partition}
    )
    has = _("the partition {partition} has {fitting} of them").format(
        partition=partition or _("(Slurm's default)"), fitting=fitting
    )
    said = [wants_text(pool), has]
    closest = "" if fitting else closest_text(pool, all_machines(nodes_in(context.nodes, partition)))
    if closest:
        said.append(closest)
    hint = _("ask for less, or have TUNEPLANE_SLURM_PARTITION send {profile} to a partition that has them").format(
        profile=pool.profile
    )
    if elsewhere:
        hint += " " + _("(such machines are also in: {names})").format(names=", ".join(elsewhere))
    return Refusal("pool-impossible", _("; ").join(said), hint, field=f"spec.resources.pools.{index}")


def _fits(node: NodeInfo, pool: PoolRequest) -> bool:
    cards = sum(gpu.profile == pool.profile for gpu in node.gpus)
    return cards >= pool.gpus_per_node and node.cpus >= pool.cpus and node.memory_gb >= pool.memory_gb


def _limit(nodes: Sequence[NodeInfo], partition: str | None, what: str) -> int | None:
    """Of a partition, as any of its machines tells it."""
    for node in nodes:
        limits = _partitions(node).get(partition or "")
        if limits is not None:
            found = limits.get(what)
            return found if isinstance(found, int) else None
    return None


def _partitions(node: NodeInfo) -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = node.facts.get("partitions") or {}
    return found
