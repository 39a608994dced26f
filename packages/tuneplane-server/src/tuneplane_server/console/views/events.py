"""The ledger's events as a timeline."""

from __future__ import annotations

from typing import Any

from tuneplane_server.console.display import PHASE_ICONS

_ICONS = {
    "created": "plus",
    "submitted": "plus",
    "admitted": "plus",
    "placed": "cpu",
    "launched": "zap",
    "unreachable": "unplug",
    "adopted": "rotate-cw",
    "retried": "rotate-cw",
    "cancel": "circle-stop",
    "time-limit": "clock",
    "cleaned": "check",
    "settled": "check",
    "overdue": "clock",
    "condition": "triangle-alert",
    "condition-cleared": "check",
}
_TONES = {
    "succeeded": "good",
    "failed": "bad",
    "lost": "odd",
    "cancelled": "quiet",
    "running": "info",
    "starting": "info",
    "finishing": "info",
    "queued": "quiet",
}
_WARNING_KINDS = {"unreachable", "condition", "overdue", "time-limit", "cancel"}
_HELD = {"parked", "pause"}  # after them a queued job waits for people, not for its turn
_LONGEST = 400


def present(event: dict[str, Any]) -> dict[str, Any]:
    """An event (API shape) with its picture, tone and details as text. `held`: in the queue, but only because it is paused."""
    moved = bool(event.get("to")) and event.get("to") != event.get("from")
    ignored = bool(event.get("ignored"))
    if moved and not ignored:
        picture, tone = PHASE_ICONS.get(event["to"], "circle-dot"), _TONES.get(event["to"], "quiet")
    else:
        picture = _ICONS.get(event["kind"], "circle-dot")
        tone = "warn" if event["kind"] in _WARNING_KINDS and not ignored else "quiet"
    data = event.get("data") or {}
    held = event["kind"] in _HELD and event.get("to") == "queued" and not ignored
    if held:
        picture = "circle-pause"
    return event | {"icon": picture, "tone": tone, "ignored": ignored, "held": held, "details": list(_flat(data))}


def _flat(data: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested data as (dotted name, text), each at most 400 characters."""
    rows: list[tuple[str, str]] = []
    for name, value in data.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{name}.")
        elif value not in (None, "", []):
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            rows.append((prefix + name, text if len(text) <= _LONGEST else text[:_LONGEST] + "…"))
    return rows
