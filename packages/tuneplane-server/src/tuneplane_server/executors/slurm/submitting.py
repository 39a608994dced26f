"""What Slurm is asked for when an attempt is launched: pure, from the plan, the settings and the machines there are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuneplane_server.executors.port import LaunchPlan, PoolPlan
from tuneplane_server.executors.slurm.cards import MIB_PER_GIB, NO_CARDS, kind_of
from tuneplane_server.executors.slurm.handles import comment_of, name_of
from tuneplane_server.executors.slurm.rest.models import Component, Partition, SlurmNode, Submission
from tuneplane_server.executors.slurm.rules import SlurmRules

OUTPUT_FILE = "job.out"
# Slurm gives a job nothing but what is sent.
BASE_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
}
MARGIN_SECONDS = 120  # beyond the run's own limit and grace: ours ends it first, Slurm's is for when nobody does
MOST_WARNING = 3600


@dataclass(frozen=True)
class Cluster:
    """What the cluster is made of, as of a moment ago; empty where that is not known."""

    nodes: tuple[SlurmNode, ...] = ()
    partitions: tuple[Partition, ...] = ()

    def partition(self, name: str | None) -> Partition | None:
        """None: the default one. Newer data versions do not say which that is; an only one is it."""
        if name is None and len(self.partitions) == 1:
            return self.partitions[0]
        return next((item for item in self.partitions if (item.default if name is None else item.name == name)), None)

    def nodes_in(self, name: str | None) -> tuple[SlurmNode, ...]:
        partition = self.partition(name)
        if partition is None:
            return self.nodes
        return tuple(node for node in self.nodes if partition.name in node.partitions)


def pools_of(plan: LaunchPlan) -> tuple[PoolPlan, ...]:
    """What was asked for, by component; a plan without pools asks for its machines as they are."""
    if plan.pools:
        return plan.pools
    return tuple(
        PoolPlan(
            name=f"machine-{machine.rank}",
            profile=NO_CARDS,
            machines=1,
            gpus=len(machine.gpus),
            cpus=machine.cpus or 0,
            memory_gb=(machine.memory_bytes or 0) / 1024**3,
        )
        for machine in plan.machines
    )


def gpus_of(pools: Iterable[PoolPlan]) -> int:
    return sum(pool.machines * pool.gpus for pool in pools)


def submission_of(plan: LaunchPlan, script: str, directory: str, cluster: Cluster, rules: SlurmRules) -> Submission:
    pools, slurm = pools_of(plan), rules.slurm
    grace = math.ceil(plan.grace.total_seconds())
    minutes = _minutes(plan, pools, grace, cluster, rules)
    return Submission(
        name=name_of(plan.job_id, plan.attempt),
        comment=comment_of(plan.job_id, plan.attempt),
        script=script,
        components=tuple(_component(pool, cluster, rules) for pool in pools),
        environment=BASE_ENVIRONMENT | dict(plan.env),
        directory=directory,
        output=f"{directory}/{OUTPUT_FILE}",
        time_limit_minutes=minutes,
        account=slurm.account,
        qos=slurm.qos.of(plan.priority),
        reservation=slurm.reservation,
        nice=-plan.priority if plan.priority < 0 else None,  # more than usual only its QOS can give
        warning=_warning(minutes, grace, pools, cluster, rules),
    )


def _warning(
    minutes: int | None, grace: int, pools: Sequence[PoolPlan], cluster: Cluster, rules: SlurmRules
) -> tuple[str, int] | None:
    """SIGTERM as long before the limit as the run's grace is; not where that would be at once."""
    before = min(grace, MOST_WARNING)
    if minutes is None:
        partition = cluster.partition(rules.slurm.partitions.of(pools[0].profile))
        minutes = None if partition is None else partition.default_minutes or partition.max_minutes
    return ("TERM", before) if before > 0 and (minutes is None or minutes * 60 > 2 * before) else None


def _component(pool: PoolPlan, cluster: Cluster, rules: SlurmRules) -> Component:
    partition = rules.slurm.partitions.of(pool.profile)
    nodes = cluster.nodes_in(partition)
    return Component(
        nodes=pool.machines,
        gpus=pool.gpus,
        gpu_type=kind_of(pool.profile, nodes, rules) if pool.gpus and pool.profile != NO_CARDS else None,
        cpus=math.ceil(pool.cpus) or _share(pool, nodes),
        memory_mb=math.ceil(pool.memory_gb * MIB_PER_GIB) or None,
        partition=partition,
    )


def _share(pool: PoolPlan, nodes: Sequence[SlurmNode]) -> int | None:
    """Of a machine's CPUs as many as go with its cards: without a claim Slurm would give a single one."""
    shares = [node.cpus * pool.gpus // cards for node in nodes if (cards := sum(node.gpus.values())) >= pool.gpus > 0]
    return max(1, min(shares)) if shares else None


def _minutes(
    plan: LaunchPlan, pools: Sequence[PoolPlan], grace: int, cluster: Cluster, rules: SlurmRules
) -> int | None:
    """Slurm's time limit; None for the partition's own. The margin is left out where the partition allows no more than the run wants."""
    if plan.max_seconds is None:
        return rules.slurm.time_limit_minutes
    least = math.ceil(plan.max_seconds / 60)
    wanted = math.ceil((plan.max_seconds + grace + MARGIN_SECONDS) / 60)
    found = [cluster.partition(rules.slurm.partitions.of(pool.profile)) for pool in pools]
    most = min((item.max_minutes for item in found if item is not None and item.max_minutes is not None), default=None)
    return wanted if most is None or most < least else min(wanted, most)
