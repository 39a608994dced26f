"""Quotas in words: each limit with how much of it is used, as a small bar, and when it begins anew; and maintenance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tuneplane.cli.job.show_text import local_time
from tuneplane.cli.text import clean
from tuneplane.client.types import Quota, QuotaReport
from tuneplane.i18n import _

BAR_CELLS = 10

_NOUNS: dict[str, Callable[[], str]] = {
    "gpus": lambda: _("GPUs at once"),
    "jobs": lambda: _("jobs at once"),
    "queued_jobs": lambda: _("waiting jobs"),
    "gpu_hours_day": lambda: _("GPU-hours today"),
    "gpu_hours_month": lambda: _("GPU-hours this month"),
    "storage_gb": lambda: _("storage in GB"),
    "profiles": lambda: _("allowed profiles"),
    "images": lambda: _("allowed images"),
    "max_seconds": lambda: _("longest run"),
    "max_priority": lambda: _("highest priority"),
}
FIELDS = tuple(_NOUNS)
_PERIOD_OF = {"gpu_hours_day": "day", "gpu_hours_month": "month"}


def noun(field: str) -> str:
    """A field in the reader's language; one that this client does not know stays as it is."""
    word = _NOUNS.get(field)
    return word() if word else field


def whose(quota: Quota) -> str:
    """`ada`, `ada/lab`, or what a default is the default of."""
    if quota["name"]:
        return quota["name"]
    return _("(every user)") if quota["scope"] == "user" else _("(every project)")


def value_text(field: str, value: Any) -> str:
    """A limit or a use, without its unit."""
    if value is None:
        return _("no limit")
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    if field == "max_seconds" and isinstance(value, int):
        return duration(value)
    return number(value)


def number(value: Any) -> str:
    """At most two decimals, none where it is whole."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def duration(seconds: int) -> str:
    """`90s`, `30m`, `2h`, `1d`: as the options take it."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds and seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def bar(used: float, limit: float) -> str:
    """How full, in ten cells of ASCII: any terminal and any log shows it."""
    share = 1.0 if limit <= 0 else min(max(used / limit, 0.0), 1.0)
    full = round(share * BAR_CELLS)
    if used > 0 and full == 0:
        full = 1
    return "#" * full + "." * (BAR_CELLS - full)


def use_rows(report: QuotaReport) -> Iterator[tuple[str, str, str]]:
    """(what, bar, `used of limit`) of every limit that is counted and set."""
    for field in FIELDS:
        used, limit = report["use"].get(field), report["limits"].get(field)
        if not isinstance(used, int | float) or not isinstance(limit, int | float):
            continue
        text = _("{used} of {limit}").format(used=number(used), limit=number(limit))
        anew = _anew(report, field)
        yield noun(field), bar(used, limit), _("{use}, anew at {time}").format(use=text, time=anew) if anew else text


def limit_rows(report: QuotaReport) -> Iterator[tuple[str, str, str, str, str]]:
    """(what, limit, where it comes from, used, bar) of every field; a default has no use."""
    default = not report["name"]
    for field in FIELDS:
        limit, used = report["limits"].get(field), report["use"].get(field)
        shown = "" if default or used is None else number(used)
        counted = shown and isinstance(limit, int | float) and isinstance(used, int | float)
        mark = bar(used, limit) if counted else ""  # type: ignore[arg-type]
        yield noun(field), value_text(field, limit), _source(report["sources"].get(field)), shown, mark


def _source(source: Any) -> str:
    return {"own": _("own"), "default": _("default")}.get(str(source), "-")


def _anew(report: QuotaReport, field: str) -> str | None:
    period = _PERIOD_OF.get(field)
    if period is None:
        return None
    span = report["day"] if period == "day" else report["month"]
    return local_time(span["end"])


def drain_line(value: Mapping[str, Any]) -> str:
    """Whether maintenance is on, since when, by whom and why."""
    if not value.get("on"):
        return _("maintenance is off: jobs are started")
    line = _("maintenance since {time} (turned on by {user}): jobs wait, none is started").format(
        time=local_time(value.get("since")), user=clean(str(value.get("by")))
    )
    return f"{line}: {clean(str(value['text']))}" if value.get("text") else line
