"""What one machine of a pool wants, and what a machine has, in the reader's language: only what is claimed or known is named."""

from __future__ import annotations

from collections.abc import Iterable

from tuneplane.i18n import _, ngettext
from tuneplane_server.domain.placement import Machine, PoolRequest, room_of


def wants_text(pool: PoolRequest) -> str:
    """`the pool main wants 2 machines with 8 h200 and 64 CPUs each`; a pool that claims nothing wants machines of its profile."""
    what = _parts(pool.profile, pool.gpus_per_node, pool.cpus, pool.memory_gb)
    if not what:
        text = ngettext(
            "the pool {name} wants {nodes} machine of the profile {profile}",
            "the pool {name} wants {nodes} machines of the profile {profile}",
            pool.nodes,
        )
        return text.format(name=pool.name, nodes=pool.nodes, profile=pool.profile)
    text = ngettext(
        "the pool {name} wants {nodes} machine with {what}",
        "the pool {name} wants {nodes} machines with {what} each",
        pool.nodes,
    )
    return text.format(name=pool.name, nodes=pool.nodes, what=what)


def claim_text(cpus: float, memory_gb: float) -> str:
    """`4 CPUs and 16 GB of memory`; empty for neither."""
    return _parts("", 0, cpus, memory_gb)


def closest_text(pool: PoolRequest, machines: Iterable[Machine]) -> str:
    """Of machines of which none is enough for the pool: what the one that comes closest has; empty without machines."""
    found = room_of(pool, machines)
    if found is None:
        return ""
    cards = len(found.cards.get(pool.profile, ()))
    what = _parts(pool.profile, cards, found.cpus, found.memory_gb)
    return _("the largest machine for it, {node}, has {what}").format(node=found.name, what=what) if what else ""


def _parts(profile: str, cards: int, cpus: float, memory_gb: float) -> str:
    parts = [_("{cards} {profile}").format(cards=cards, profile=profile)] if cards else []
    if cpus:
        parts.append(ngettext("{count:g} CPU", "{count:g} CPUs", 1 if cpus == 1 else 2).format(count=cpus))
    if memory_gb:
        parts.append(_("{memory:g} GB of memory").format(memory=memory_gb))
    if len(parts) < 2:
        return "".join(parts)
    return _("{some} and {last}").format(some=_(", ").join(parts[:-1]), last=parts[-1])
