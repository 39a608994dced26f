"""The queue page: the line as rows, and the machines as a picture of their cards, coloured by who holds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tuneplane_server.console.i18n import _
from tuneplane_server.domain.line import Live
from tuneplane_server.domain.placement import Hold, PoolRequest
from tuneplane_server.executors.port import GpuInfo, NodeInfo
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.passed_on import PassedOn
from tuneplane_server.features.queue.service import Entry, LineOf, PlanOf, may_see
from tuneplane_server.features.queue.texts import needs_text
from tuneplane_server.features.queue.views import executor_view, waiting_view

CARD, GAP, IN_ROW = 44, 6, 8  # units of the picture
COLOURS = 5


def rows(line: LineOf) -> list[dict[str, Any]]:
    """Of other people's jobs only the place, the owner and what they need."""
    return [_row(line.made, entry) for entry in line.entries]


def passed_on(passed: Sequence[PassedOn], reader: Principal) -> list[dict[str, Any]]:
    """Who waits in the executor's own queue, in the shape of `rows`."""
    return [_passed(item, mine=may_see(reader, item)) for item in passed]


def machines(made: PlanOf, reader: Principal, names: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """Each machine (of these names and in their order; None: of all): its cards with their places in the picture, and who holds
    what of it."""
    colours = {live.job_id: f"run-{index % COLOURS + 1}" for index, live in enumerate(made.live)}
    held: dict[str, list[tuple[Live, Hold]]] = {}
    for run in made.live:
        for hold in run.holds:
            held.setdefault(hold.node, []).append((run, hold))
    known = {node.name: node for node in made.nodes}
    shown = [known[name] for name in (known if names is None else names) if name in known]
    return [_machine(node, held.get(node.name, []), colours, reader) for node in shown]


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


def _passed(passed: PassedOn, *, mine: bool) -> dict[str, Any]:
    waiting = executor_view(passed.seen, passed.demand)
    return {
        "position": waiting.position,
        "owner": passed.names.owner,
        "needs": needs_text([PoolRequest(**pool) for pool in passed.demand]),
        "priority": passed.priority,
        "mine": mine,
        "id": passed.names.job_id,
        "name": passed.names.display_name or passed.names.experiment,
        "project": passed.names.project,
        "waiting": waiting.model_dump() if mine else None,
    }


def _machine(
    node: NodeInfo, held: Sequence[tuple[Live, Hold]], colours: dict[str, str], reader: Principal
) -> dict[str, Any]:
    by_card = {index: run for run, hold in held for index in hold.gpus}
    gpus = sorted(node.gpus, key=lambda gpu: gpu.index)
    if node.gpus_used is None:
        cards = [
            _place(place, gpu) | _held(gpu, by_card.get(gpu.index), colours, reader) for place, gpu in enumerate(gpus)
        ]
        free = sum(gpu.index not in by_card for gpu in gpus)
    else:
        cards = [_place(place, gpu) | _counted(place, gpu, node) for place, gpu in enumerate(gpus)]
        free = max(0, len(gpus) - node.gpus_used)
    lines = (len(cards) + IN_ROW - 1) // IN_ROW
    return {
        "name": node.name,
        "profiles": sorted({gpu.profile for gpu in node.gpus}),
        "simulated": any(gpu.simulated for gpu in node.gpus),
        "cards": cards,
        "free": free,
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


def _place(place: int, gpu: GpuInfo) -> dict[str, Any]:
    return {"x": place % IN_ROW * (CARD + GAP), "y": place // IN_ROW * (CARD + GAP), "index": gpu.index}


def _held(gpu: GpuInfo, run: Live | None, colours: dict[str, str], reader: Principal) -> dict[str, Any]:
    return {
        "colour": f"held {colours[run.job_id]}" if run else "",
        "link": run.job_id if run and _may_see(run, reader) else None,
        "title": _card_title(gpu.profile, gpu.index, run),
    }


def _counted(place: int, gpu: GpuInfo, node: NodeInfo) -> dict[str, Any]:
    """The executor says how many are taken and not which: a picture of their number."""
    taken = node.gpus_used or 0
    title = _("{profile}: {taken} of {total} are taken").format(profile=gpu.profile, taken=taken, total=len(node.gpus))
    return {"colour": "held taken" if place < taken else "", "link": None, "title": title}


def _card_title(profile: str, index: int, run: Live | None) -> str:
    card = f"{profile} {index}"
    if run is None:
        return _("{card}: free").format(card=card)
    return _("{card}: run {run} of {owner}").format(card=card, run=run.job_id, owner=run.owner)


def _may_see(run: Live, reader: Principal) -> bool:
    return reader.acts_as_admin or run.owner == reader.username
