"""`--profile` values to the pools of a JobSpec, with what the console's registry says about its machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tuneplane.contract.profile import ProfileRequest, match_profile, parse_profile, shape_pool
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _

CPU_PROFILE = "cpu"
DEFAULT_GPUS = 1  # `--profile h200` without a number
# A fixed number and not the machine's: the number of threads decides the order of sums, and so the last digits of the losses.
DEFAULT_CPUS = 1
DEFAULT_MEMORY_GB = 4.0
ASSUMED_NODE_GPUS = 8  # only for plans made without a console


@dataclass(frozen=True)
class Pools:
    """`pools` and `roles` as in `spec.resources`; `assumed` says that the shape was guessed without a console."""

    pools: list[dict[str, Any]] = field(default_factory=list)
    roles: dict[str, str] = field(default_factory=dict)
    assumed: bool = False


def make_pools(
    profiles: Sequence[str],
    hardware: Sequence[Mapping[str, Any]] | None,
    *,
    cpus: int | None = None,
    memory_gb: float | None = None,
) -> tuple[Pools, list[Refusal]]:
    """`hardware`: the profiles of `GET /hardware`, None without a console. `cpus`, `memory_gb`: for every machine of every pool."""
    refusals: list[Refusal] = []
    requests: list[ProfileRequest] = []
    for text in profiles:
        try:
            requests.append(parse_profile(text))
        except RefusedError as error:
            refusals.extend(error.refusals)
    if not profiles:
        refusals.append(_no_profile(hardware))
    refusals += _check_roles(requests)
    known = None if hardware is None else {item["name"]: item for item in hardware}
    pools = []
    for request in requests:
        name = request.roles[0] if len(requests) > 1 and request.roles else "main"
        try:
            pools.append({"name": name, **_shape(request, known, cpus, memory_gb)})
        except RefusedError as error:
            refusals.extend(error.refusals)
    roles = {role: pool["name"] for request, pool in zip(requests, pools, strict=False) for role in request.roles}
    assumed = known is None and any(pool["gpus_per_node"] for pool in pools)
    return (Pools() if refusals else Pools(pools, roles, assumed)), refusals


def _shape(
    request: ProfileRequest, known: Mapping[str, Mapping[str, Any]] | None, cpus: int | None, memory_gb: float | None
) -> dict[str, Any]:
    name = request.name if known is None else match_profile(request.name, known)
    node = known[name] if known is not None else {}
    extra = ({"cpus": cpus} if cpus else {}) | ({"memory_gb": memory_gb} if memory_gb else {})
    if name == CPU_PROFILE:
        return {"series": name, "nodes": 1, "gpus_per_node": 0, **_cpu_share(request, node), **extra}
    node_gpus = node.get("gpus_per_node", ASSUMED_NODE_GPUS)
    wanted = request.total_gpus or DEFAULT_GPUS
    shape = shape_pool(wanted, node_gpus)
    if shape is None:
        raise _refused(
            "pool-impossible",
            _("{wanted} GPUs of {profile} neither fit one machine nor fill whole ones: a machine has {count}").format(
                wanted=wanted, profile=name, count=node_gpus
            ),
            _("ask for at most {count}, or a whole multiple of {count}").format(count=node_gpus),
        )
    return {"series": name, "nodes": shape.nodes, "gpus_per_node": shape.gpus_per_node, **extra}


def _cpu_share(request: ProfileRequest, node: Mapping[str, Any]) -> dict[str, Any]:
    if request.total_gpus is not None:
        raise _refused("profile-invalid", _("the profile cpu has no GPUs"), _("write --profile cpu, with --cpus N"))
    most_cpus, most_memory = node.get("cpus"), node.get("memory_gb")
    return {
        "cpus": max(1, min(DEFAULT_CPUS, int(most_cpus))) if most_cpus else DEFAULT_CPUS,
        "memory_gb": min(DEFAULT_MEMORY_GB, most_memory) if most_memory else DEFAULT_MEMORY_GB,
    }


def _check_roles(requests: Sequence[ProfileRequest]) -> list[Refusal]:
    hint = _("name the roles: --profile train=h200:8 --profile rollout=h100:8")
    if len(requests) > 1 and any(not request.roles for request in requests):
        return [_refusal("roles-invalid", _("several pools need roles"), hint)]
    named = [role for request in requests for role in request.roles]
    twice = sorted({role for role in named if named.count(role) > 1})
    if twice:
        return [_refusal("roles-invalid", _("the role {role} has two pools").format(role=", ".join(twice)), hint)]
    return []


def _no_profile(hardware: Sequence[Mapping[str, Any]] | None) -> Refusal:
    names = ", ".join(item["name"] for item in hardware or ())
    hint = (
        _("profiles of this server: {names}").format(names=names)
        if names
        else _("for example --profile cpu, or --profile h200:8")
    )
    return _refusal("profile-invalid", _("the job needs a profile to run on"), hint)


def _refused(code: str, message: str, hint: str) -> RefusedError:
    return RefusedError([_refusal(code, message, hint)])


def _refusal(code: str, message: str, hint: str) -> Refusal:
    return Refusal(code, message, hint, field="spec.resources.pools")
