"""What machines and cards do, in lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuneplane.cli.text import table
from tuneplane.i18n import _

GB = 10**9


def machines_text(nodes: Sequence[Mapping[str, Any]]) -> str:
    """A line for each machine that was measured; nothing where none was."""
    rows = [_machine(node) for node in nodes if node.get("figures")]
    return "\n" + table([_("MACHINE"), _("CPU"), _("MEMORY"), _("GPUS AT WORK")], rows) if rows else ""


def run_text(latest: Sequence[Mapping[str, Any]]) -> str:
    """A line for each part of a run: itself, its machine, its cards."""
    words = {"machine": _("machine"), "job": _("the run")}
    rows = [
        (item["node"], words.get(item["part"]) or f"GPU {item.get('gpu')}", figures_text(item["figures"], item["part"]))
        for item in latest
    ]
    return "\n" + table([_("MACHINE"), "", _("NOW")], rows) if rows else ""


def figures_text(figures: Mapping[str, float], part: str) -> str:
    shown = []
    if "use" in figures:
        shown.append(f"{figures['use']:.0f} %")
    if "cpu" in figures:
        cores = _("{count:.1f} cores").format(count=figures["cpu"])
        shown.append(cores if part == "job" else f"{figures['cpu']:.0f} % CPU")
    if "memory_used" in figures:
        shown.append(f"{figures['memory_used'] / GB:.1f} GB")
    if "temperature" in figures:
        shown.append(f"{figures['temperature']:.0f} °C")
    if "power" in figures:
        shown.append(f"{figures['power']:.0f} W")
    if figures.get("ecc_errors"):
        shown.append(_("{count:.0f} ECC errors").format(count=figures["ecc_errors"]))
    if figures.get("slowed"):
        shown.append(_("slowed down by heat or power"))
    return ", ".join(shown)


def _machine(node: Mapping[str, Any]) -> tuple[str, str, str, str]:
    figures = node["figures"]
    used, total = figures.get("memory_used"), node.get("memory_gb")
    memory = "-" if used is None else f"{used / GB:.1f} GB"
    if used is not None and total:
        memory = f"{used / GB:.1f} / {total * 2**30 / GB:.1f} GB"
    cards = [gpu for gpu in node.get("gpus") or [] if gpu.get("figures")]
    busy = sum(gpu["figures"].get("use", 0) >= 5 for gpu in cards)
    work = f"{busy} / {len(cards)}" if cards else _("simulated") if node.get("simulated") else "-"
    return node["name"], f"{figures['cpu']:.0f} %" if "cpu" in figures else "-", memory, work
