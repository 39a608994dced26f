"""The page of machines: each with its newest figures and its cards, who holds them and how they do."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

GB = 10**9
SHOWN = 50  # machines of a page


@dataclass(frozen=True)
class Others:
    """Where the machines are that a page does not show: links, empty where there are none."""

    count: int
    before: str
    after: str


def page(names: Collection[str], first: str) -> tuple[list[str], Others]:
    """The machines to show, those from `first` on; where the others are."""
    ordered = sorted(names)
    start = bisect_left(ordered, first)
    if start and start + SHOWN > len(ordered):
        start = max(0, len(ordered) - SHOWN)  # the last page is a full one
    before = ordered[max(0, start - SHOWN)] if start else ""
    after = ordered[start + SHOWN] if start + SHOWN < len(ordered) else ""
    return ordered[start : start + SHOWN], Others(len(ordered), before and place(before), after and place(after))


def place(first: str) -> str:
    """The page that shows the machines from that one on."""
    return "/hardware" + (f"?from={quote(first, safe='')}" if first else "")


def place_of(name: str, names: Collection[str]) -> str:
    """Where a machine is shown: on the first page without naming one."""
    first = "" if sorted(names)[:SHOWN].count(name) or name not in names else name
    return f"{place(first)}#node-{quote(name, safe='')}"


def nodes(
    overview: Mapping[str, Any], machines: list[dict[str, Any]], now: datetime, fresh: timedelta
) -> list[dict[str, Any]]:
    """`machines`: as the queue's page has them, which says who may see which run."""
    pictures = {machine["name"]: machine for machine in machines}
    return [_node(node, pictures.get(node["name"]), now, fresh) for node in overview["nodes"]]


def _node(
    node: Mapping[str, Any], picture: Mapping[str, Any] | None, now: datetime, fresh: timedelta
) -> dict[str, Any]:
    figures = _current(node, now, fresh)
    held = {card["index"]: card for card in picture["cards"]} if picture else {}
    return {
        "name": node["name"],
        "cpus": f"{node['cpus']:g}",
        "simulated": node["simulated"],
        "taken": node["gpus_used"],
        "why": "" if node["placeable"] else node["why"],
        "seen_at": node["seen_at"],
        "stale": node["seen_at"] is not None and figures is None,
        "cpu": _percent(figures, "cpu"),
        "memory": _share(figures, "memory_used", node["memory_gb"] * 2**30),
        "disk": _share(figures, "disk_used", (node.get("disk_gb") or 0) * 2**30),
        "traffic": [] if figures is None else _traffic(figures),
        "cards": [_card(card, held.get(card["index"]), now, fresh) for card in node["gpus"]],
    }


def _card(card: Mapping[str, Any], held: Mapping[str, Any] | None, now: datetime, fresh: timedelta) -> dict[str, Any]:
    figures = _current(card, now, fresh)
    total = None if card["memory_gb"] is None else card["memory_gb"] * 2**30
    return {
        "index": card["index"],
        "profile": card["profile"],
        "product": card["product"],
        "simulated": card["simulated"],
        "run": card["job_id"],
        "link": held["link"] if held else None,
        "use": _percent(figures, "use"),
        "memory": _share(figures, "memory_used", total),
        "temperature": _text(figures, "temperature", "{:.0f} °C"),
        "power": _text(figures, "power", "{:.0f} W"),
        "errors": _text(figures, "ecc_errors", "{:.0f}"),
        "bad": bool(figures and figures.get("ecc_errors")),
        "corrected": _text(figures, "ecc_corrected", "{:.0f}") if figures and figures.get("ecc_corrected") else "",
        "slowed": bool(figures and figures.get("slowed")),
    }


def _current(part: Mapping[str, Any], now: datetime, fresh: timedelta) -> Mapping[str, float] | None:
    """What was measured a moment ago; what came long ago says nothing of now."""
    if part["figures"] is None or part["seen_at"] is None or now - part["seen_at"] > fresh:
        return None
    figures: Mapping[str, float] = part["figures"]
    return figures


def _percent(figures: Mapping[str, float] | None, name: str) -> dict[str, Any] | None:
    if figures is None or name not in figures:
        return None
    return {"value": round(figures[name], 1), "text": f"{figures[name]:.0f} %"}


def _share(figures: Mapping[str, float] | None, name: str, total: float | None) -> dict[str, Any] | None:
    """`value`: percent for the bar, None without a total."""
    if figures is None or name not in figures:
        return None
    used = figures[name]
    text = f"{used / GB:.1f} GB" if not total else f"{used / GB:.1f} / {total / GB:.1f} GB"
    return {"value": None if not total else round(min(100.0, 100 * used / total), 1), "text": text}


def _traffic(figures: Mapping[str, float]) -> list[tuple[str, str]]:
    found = [("disk_read", "disk_write"), ("net_in", "net_out")]
    return [
        (f"{figures[first] / 1e6:.1f} MB/s", f"{figures[second] / 1e6:.1f} MB/s")
        if first in figures and second in figures
        else ("–", "–")
        for first, second in found
    ]


def _text(figures: Mapping[str, float] | None, name: str, form: str) -> str:
    return "–" if figures is None or name not in figures else form.format(figures[name])
