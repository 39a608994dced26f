"""Values as people read them: durations, times, sizes, numbers. `static/js/format.js` says the same in the browser."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from tuneplane_server.console.i18n import N_, _

PHASE_WORDS = {
    "queued": N_("Queued"),
    "starting": N_("Starting"),
    "running": N_("Running"),
    "finishing": N_("Finishing"),
    "succeeded": N_("Succeeded"),
    "failed": N_("Failed"),
    "cancelled": N_("Cancelled"),
    "lost": N_("Lost"),
}
PHASE_ICONS = {
    "queued": "circle-dashed",
    "starting": "loader",
    "running": "activity",
    "finishing": "rotate-cw",
    "succeeded": "circle-check",
    "failed": "circle-x",
    "cancelled": "circle-slash",
    "lost": "circle-question-mark",
}
_NON_FINITE = {"NaN": "NaN", "Infinity": "∞", "-Infinity": "−∞"}
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")


def parse_time(value: str | float | datetime | None) -> datetime | None:
    """An aware UTC time from what the API carries: ISO 8601 text or Unix seconds."""
    if value is None or value == "":
        return None
    if isinstance(value, datetime):
        return value
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    return datetime.fromisoformat(value)


def seconds_between(start: Any, end: Any) -> float | None:
    """Seconds from `start` to `end` (now when `end` is None); None while there is no start."""
    begun = parse_time(start)
    if begun is None:
        return None
    return max(0.0, ((parse_time(end) or datetime.now(UTC)) - begun).total_seconds())


def duration(seconds: float | None) -> str:
    """`42s`, `3m 05s`, `2h 14m`, `3d 4h`; a dash when unknown."""
    if seconds is None:
        return "–"
    whole = int(seconds)
    days, hours, minutes, rest = whole // 86400, whole // 3600 % 24, whole // 60 % 60, whole % 60
    if days:
        return _("{days}d {hours}h").format(days=days, hours=hours)
    if hours:
        return _("{hours}h {minutes}m").format(hours=hours, minutes=f"{minutes:02}")
    if minutes:
        return _("{minutes}m {seconds}s").format(minutes=minutes, seconds=f"{rest:02}")
    return _("{seconds}s").format(seconds=rest)


def relative(value: Any, now: datetime | None = None) -> str:
    """How long ago, in a few characters; the date once it is more than 30 days."""
    when = parse_time(value)
    if when is None:
        return "–"
    age = ((now or datetime.now(UTC)) - when).total_seconds()
    if age < 10:
        return _("just now")
    if age < 60:
        return _("{n}s ago").format(n=int(age))
    if age < 3600:
        return _("{n}m ago").format(n=int(age // 60))
    if age < 86400:
        return _("{n}h ago").format(n=int(age // 3600))
    if age < 30 * 86400:
        return _("{n}d ago").format(n=int(age // 86400))
    return f"{when:%Y-%m-%d}"


def iso(value: Any) -> str:
    """The time for a `datetime` attribute, empty when unknown."""
    when = parse_time(value)
    return when.astimezone(UTC).isoformat(timespec="milliseconds") if when else ""


def clock(value: Any) -> str:
    """The exact time in UTC, for readers without JavaScript and for titles; the browser shows its own zone."""
    when = parse_time(value)
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if when else ""


def size(count: int | None) -> str:
    """Bytes in decimal units with three significant digits."""
    if count is None:
        return "–"
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(_SIZES) - 1:
        value, unit = value / 1000, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.{max(0, 2 - int(math.log10(value)))}f} {_SIZES[unit]}"


def number(value: Any) -> str:
    """A metric's value: five significant digits, powers of ten outside 0.001 … 999,999."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return _NON_FINITE.get(value, value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "−∞"
    magnitude = abs(value)
    if value == int(value) and magnitude < 1e6:
        return str(int(value))
    if 1e-3 <= magnitude < 1e6:
        return _shorn(f"{value:.{max(0, 4 - math.floor(math.log10(magnitude)))}f}")
    mantissa, _e, exponent = f"{value:.3e}".partition("e")
    return f"{_shorn(mantissa)}e{int(exponent)}"


def _shorn(text: str) -> str:
    """A decimal without the zeros at its end."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def short_digest(digest: str | None) -> str:
    """`sha256:0123456789ab…` or bare hex, cut to what tells two apart."""
    if not digest:
        return "–"
    kind, colon, hexes = digest.rpartition(":")
    return f"{kind}{colon}{hexes[:12]}"


def pool_text(pool: dict[str, Any]) -> str:
    """`h200:16 · 2 nodes` as people typed it: the profile and the total of its cards."""
    cards = pool["nodes"] * pool["gpus_per_node"]
    text = f"{pool['series']}:{cards}" if cards else str(pool["series"])
    return text if pool["nodes"] == 1 else _("{pool} · {nodes} nodes").format(pool=text, nodes=pool["nodes"])
