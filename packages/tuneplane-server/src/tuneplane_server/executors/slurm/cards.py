"""Slurm's machines as ours: what their cards are called here, and whether they take work. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tuneplane.i18n import _
from tuneplane_node.engine.inventory import series_of
from tuneplane_server.executors.port import GpuInfo, NodeInfo
from tuneplane_server.executors.slurm.rest.models import Partition, SlurmNode
from tuneplane_server.executors.slurm.rules import SlurmRules

MIB_PER_GIB = 1024
NO_CARDS = "cpu"  # the profile of machines whose cards are not used
UNNAMED = "gpu"
_RESTING = frozenset(
    [
        "DOWN",
        "DRAIN",
        "DRAINED",
        "DRAINING",
        "FAIL",
        "FAILING",
        "ERROR",
        "FUTURE",
        "FUTR",
        "UNKNOWN",
        "NOT_RESPONDING",
        "NO_RESPOND",
        "MAINT",
        "MAINTENANCE",
        "POWERING_DOWN",
        "REBOOT_ISSUED",
        "REBOOT_REQUESTED",
        "INVALID_REG",
    ]
)


def profile_of(kind: str, rules: SlurmRules) -> str:
    """What we call a card that Slurm calls `kind` (`h200`, `nvidia_h200`, `""` for one without a name)."""
    if not kind or kind.lower() == UNNAMED:
        return rules.gpu_profile or UNNAMED
    return series_of(kind.replace("_", " "))


def kind_of(profile: str, nodes: Sequence[SlurmNode], rules: SlurmRules) -> str | None:
    """What Slurm calls the cards of a profile on these machines; None when it is to take any: they have no name there, or several."""
    kinds = {
        kind for node in nodes for kind, count in node.gpus.items() if count and profile_of(kind, rules) == profile
    }
    if not kinds:
        return profile if profile != UNNAMED else None
    return kinds.pop() or None if len(kinds) == 1 else None


def names_of_partitions(rules: SlurmRules, partitions: Sequence[Partition]) -> frozenset[str]:
    """The partitions that jobs of ours can go to. Newer data versions do not say which one is the default: any may be it then."""
    chosen = rules.slurm.partitions
    if chosen.default:
        return frozenset(chosen.names)
    default = [item.name for item in partitions if item.default] or [item.name for item in partitions]
    return frozenset((*chosen.names, *default))


def node_infos(nodes: Sequence[SlurmNode], partitions: Sequence[Partition], rules: SlurmRules) -> list[NodeInfo]:
    """The machines of the partitions that jobs can go to, in the language of the context."""
    ours = names_of_partitions(rules, partitions)
    up = {item.name for item in partitions if "UP" in item.states} or ours
    limits: dict[str, dict[str, Any]] = {name: {} for name in ours}
    limits |= {item.name: _limits(item) for item in partitions if item.name in ours}
    return [_info(node, limits, up, rules) for node in nodes if ours.intersection(node.partitions)]


def _limits(partition: Partition) -> dict[str, Any]:
    """What a job may ask of it; admission tells it before Slurm does."""
    return {"minutes": partition.max_minutes, "machines": partition.max_nodes, "default": partition.default}


def _info(node: SlurmNode, limits: Mapping[str, Mapping[str, Any]], up: Collection[str], rules: SlurmRules) -> NodeInfo:
    mine = [name for name in node.partitions if name in limits]
    why = _why_not(node, mine, up)
    facts: dict[str, Any] = {
        "address": node.address,
        "partitions": {name: limits[name] for name in mine},
        "state": "+".join(sorted(node.states)),
    }
    if node.architecture:
        facts["architecture"] = node.architecture
    return NodeInfo(
        name=node.name,
        cpus=float(node.cpus),
        memory_gb=round(node.memory_mb / MIB_PER_GIB, 1),
        gpus=tuple(_gpus(node, rules)),
        facts=facts,
        placeable=not why,
        why=why,
        gpus_used=node.gpus_used,
    )


def _gpus(node: SlurmNode, rules: SlurmRules) -> list[GpuInfo]:
    kinds = [kind for kind, count in sorted(node.gpus.items()) for _each in range(count)]
    invented = rules.simulated
    return [
        GpuInfo(
            index=index,
            profile=(profile := profile_of(kind, rules)),
            product=f"simulated {profile}" if invented else kind or profile,
            memory_gb=None,
            simulated=invented,
        )
        for index, kind in enumerate(kinds)
    ]


def _why_not(node: SlurmNode, mine: Sequence[str], up: Collection[str]) -> str:
    """Why nothing new begins there; empty when it may."""
    states = node.states & _RESTING
    if states:
        return _away(states, node.reason)
    if not any(name in up for name in mine):
        return _("its partition {partition} is down").format(partition=", ".join(mine))
    return ""


def _away(states: frozenset[str], reason: str) -> str:
    if states & {"DRAIN", "DRAINED", "DRAINING"}:
        text = _("drained in Slurm")
    elif states & {"NOT_RESPONDING", "NO_RESPOND"}:
        text = _("does not answer Slurm")
    elif states & {"MAINT", "MAINTENANCE", "REBOOT_ISSUED", "REBOOT_REQUESTED", "POWERING_DOWN"}:
        text = _("under maintenance in Slurm")
    else:
        text = _("out of use in Slurm")
    words = "+".join(sorted(states))
    return f"{text} ({words}: {reason})" if reason else f"{text} ({words})"
