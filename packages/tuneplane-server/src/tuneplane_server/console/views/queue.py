"""The queue page: the line as rows, and the machines as a picture of their cards, coloured by who holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuneplane_server.console.i18n import _
from tuneplane_server.domain.line import Live
from tuneplane_server.executors.port import NodeInfo
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.queue.service import Entry, LineOf, PlanOf
from tuneplane_server.features.queue.texts import needs_text
from tuneplane_server.features.queue.views import waiting_view

CARD, GAP, IN_ROW = 44, 6, 8  # units of the picture
COLOURS = 5


def rows(line: LineOf) -> list[dict[str, Any]]:
    """Of other people's jobs only the place, the owner and what they need."""
    return [_row(line.made, entry) for entry in line.entries]


def machines(made: PlanOf, reader: Principal) -> list[dict[str, Any]]:
    """Each machine: its cards with their places in the picture, and who holds what of it."""
    colours = {live.job_id: f"run-{index % COLOURS + 1}" for index, live in enumerate(made.live)}
    return [_machine(node, made.live, colours, reader) for node in made.nodes]


def _row(made: PlanOf, entry: Entry) -> dict[str, Any]:
    job = made.waiting[entry.wait.job_id]
    return {
        "position": entry.wait.position,
        "owner": entry.names.owner,
        "needs": needs_text(job.pools),
        "priority": job.priority,
        "mine": entry.mine,
        "id": entry.names.job_id,
        "name": entry.names.display_name or entry.names.experiment,
        "project": entry.names.project,
        "waiting": waiting_view(made, entry.wait).model_dump() if entry.mine else None,
    }


def _machine(node: NodeInfo, live: Sequence[Live], colours: dict[str, str], reader: Principal) -> dict[str, Any]:
    held = [(run, hold) for run in live for hold in run.holds if hold.node == node.name]
    by_card = {index: run for run, hold in held for index in hold.gpus}
    cards = []
    for place, gpu in enumerate(sorted(node.gpus, key=lambda gpu: gpu.index)):
        run = by_card.get(gpu.index)
        cards.append(
            {
                "x": place % IN_ROW * (CARD + GAP),
                "y": place // IN_ROW * (CARD + GAP),
                "index": gpu.index,
                "colour": f"held {colours[run.job_id]}" if run else "",
                "link": run.job_id if run and _may_see(run, reader) else None,
                "title": _card_title(gpu.profile, gpu.index, run),
            }
        )
    lines = (len(cards) + IN_ROW - 1) // IN_ROW
    return {
        "name": node.name,
        "profiles": sorted({gpu.profile for gpu in node.gpus}),
        "simulated": any(gpu.simulated for gpu in node.gpus),
        "cards": cards,
        "free": sum(gpu.index not in by_card for gpu in node.gpus),
        "width": min(len(cards), IN_ROW) * (CARD + GAP) - GAP,
        "height": lines * (CARD + GAP) - GAP,
        "cpus": f"{node.cpus - sum(hold.cpus for _run, hold in held):g}",
        "all_cpus": f"{node.cpus:g}",
        "holders": [
            {
                "id": run.job_id,
                "owner": run.owner,
                "mine": _may_see(run, reader),
                "colour": colours[run.job_id] if hold.gpus else "",
                "gpus": len(hold.gpus),
                "cpus": f"{hold.cpus:g}" if hold.cpus else "",
                "until": run.ends_at,
            }
            for run, hold in held
        ],
    }


def _card_title(profile: str, index: int, run: Live | None) -> str:
    card = f"{profile} {index}"
    if run is None:
        return _("{card}: free").format(card=card)
    return _("{card}: run {run} of {owner}").format(card=card, run=run.job_id, owner=run.owner)


def _may_see(run: Live, reader: Principal) -> bool:
    return reader.acts_as_admin or run.owner == reader.username
