"""Nodes on the hardware page: how each is, why, and what an administrator may do with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuneplane_node.wire import known_finding
from tuneplane_server.console.i18n import N_, _
from tuneplane_server.domain.nodes import NodeHealth, NodeState
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.hardware.service import HeldByAttempt
from tuneplane_server.features.nodes.heard import Stranger
from tuneplane_server.features.nodes.node import Node
from tuneplane_server.features.nodes.texts import problem_hint, problem_text

CLOCK_SECONDS = 5.0  # less is not worth a word
SHOWN_RUNS = 10
_HEALTH = {
    NodeHealth.READY: (N_("ready"), "good", "circle-check"),
    NodeHealth.UNPROVED: (N_("storage not proved yet"), "info", "loader"),
    NodeHealth.UNREACHABLE: (N_("unreachable"), "warn", "unplug"),
    NodeHealth.LOST: (N_("lost"), "bad", "unplug"),
    NodeHealth.REFUSED: (N_("refused"), "bad", "ban"),
}
_STATE = {
    NodeState.CORDONED: N_("cordoned"),
    NodeState.DRAINING: N_("draining"),
    NodeState.REMOVED: N_("removed"),
}
_TONES = {"error": "bad", "warning": "warn"}


def care(
    nodes: Sequence[Node], held: Sequence[HeldByAttempt], machines: Sequence[Mapping[str, Any]], reader: Principal
) -> dict[str, dict[str, Any]]:
    """Name -> what the page says of the node. `held`: as it is now; `machines`: as the queue's page has them, a few seconds old,
    which says whose runs the reader may open.
    """
    mine = {item["id"] for machine in machines for item in machine["holders"] if item["mine"]}
    runs: dict[str, list[dict[str, Any]]] = {}
    for item in held:
        for hold in item.holds:
            may_open = reader.acts_as_admin or item.job_id in mine
            runs.setdefault(hold.node, []).append({"id": item.job_id, "mine": may_open})
    return {node.name: _node(node, runs.get(node.name, []), reader) for node in nodes}


def bare(node: Node) -> dict[str, Any]:
    """A node that the executor tells nothing of, such as a removed one, as a machine of the page."""
    empty: dict[str, Any] = {
        "seen_at": None,
        "stale": False,
        "cpu": None,
        "memory": None,
        "disk": None,
        "traffic": [],
        "cards": [],
    }
    empty |= {"taken": None, "why": ""}
    return {"name": node.name, "cpus": f"{node.inventory.cpus:g}", "simulated": node.simulated, **empty}


def strangers(found: Sequence[Stranger], reader: Principal) -> list[dict[str, Any]]:
    """Machines that use another one's name; administrators alone can do something about them."""
    if not reader.acts_as_admin:
        return []
    return [
        {
            "name": item.name,
            "address": item.address,
            "heard_at": item.heard_at,
            "text": problem_text(item.problem),
            "hint": problem_hint(item.problem),
        }
        for item in found
    ]


def _node(node: Node, runs: Sequence[Mapping[str, Any]], reader: Principal) -> dict[str, Any]:
    word, tone, picture = _HEALTH[node.health]
    admin = reader.acts_as_admin
    return {
        "health": {"code": node.health.value, "word": _(word), "tone": tone, "icon": picture},
        "state": {"code": node.state.value, "word": _(_STATE[node.state])} if node.state in _STATE else None,
        "state_by": node.state_by,
        "state_at": node.state_at,
        "problem": None if node.problem is None else _problem(node),
        "last_heard": node.last_heard,
        "version": node.version,
        "address": node.address if admin else None,
        "clock": _clock(node.clock_offset),
        "fences": [{"run": fence.job_id, "attempt": fence.attempt} for fence in node.fences] if admin else [],
        "fenced": len(node.fences),
        "runs": runs,
        "findings": [
            {"text": found.text, "hint": found.hint, "tone": _TONES[found.level]}
            for found in map(known_finding, node.findings)
            if found.level in _TONES
        ],
        "verbs": _verbs(node) if admin else [],
        "held_by": ", ".join(item["id"] for item in runs[:SHOWN_RUNS]) + (", …" if len(runs) > SHOWN_RUNS else ""),
    }


def _problem(node: Node) -> dict[str, str]:
    assert node.problem is not None
    return {
        "code": node.problem.code,
        "text": problem_text(node.problem),
        "hint": problem_hint(node.problem),
        "detail": node.problem.detail,
        "tone": "warn" if node.health is NodeHealth.UNREACHABLE else "bad",
    }


def _verbs(node: Node) -> list[str]:
    if node.state is NodeState.READY:
        return ["cordon", "drain", "remove"]
    if node.state is NodeState.CORDONED:
        return ["uncordon", "drain", "remove"]
    return ["uncordon", "remove"] if node.state is NodeState.DRAINING else ["uncordon"]


def _clock(offset: float | None) -> str:
    """Empty while its clock is right."""
    if offset is None or abs(offset) < CLOCK_SECONDS:
        return ""
    if offset > 0:
        return _("its clock is {seconds} s ahead").format(seconds=f"{offset:.0f}")
    return _("its clock is {seconds} s behind").format(seconds=f"{-offset:.0f}")
