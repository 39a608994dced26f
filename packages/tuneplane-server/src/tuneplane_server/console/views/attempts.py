"""The attempts of a job as rows of one picture: when each waited and ran, on an axis that all share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tuneplane_server.console.display import duration
from tuneplane_server.console.i18n import _

WIDTH = 1000.0  # units of the picture, whatever its size on the page
LEAST = 4.0  # a bar that is shorter would not be seen
SHOWN = 12
_TONES = {"succeeded": "good", "failed": "bad", "lost": "odd", "cancelled": "quiet"}


def rows(job: dict[str, Any], now: datetime, resumed: Sequence[datetime] = ()) -> list[dict[str, Any]]:
    """A row for each of the last 12 attempts; none for a job with a single attempt from scratch. `resumed`: when somebody let it
    go on after a pause.

    `bars`: [{x, width, kind, title}] in units of `WIDTH`; kinds are `waited`, `held`, `rests`, and `ran` with a tone.
    """
    attempts = job["attempts"][-SHOWN:]
    if len(attempts) < 2 and not any(attempt["resumed"] for attempt in attempts):
        return []
    begin = attempts[0]["created_at"]
    rest = job["not_before"] if job["phase"] == "queued" else None
    end = max(job["finished_at"] or now, rest or now if job["finished_at"] is None else begin)
    scale = WIDTH / max((end - begin).total_seconds(), 1e-3)
    before = [None, *attempts[:-1]]
    picture = _Picture(begin, now, scale, resumed)
    return [_row(job, attempt, last, picture) for attempt, last in zip(attempts, before, strict=True)]


class _Picture(NamedTuple):
    begin: datetime
    now: datetime
    scale: float
    resumed: Sequence[datetime]

    def bar(self, start: datetime, end: datetime, kind: str, title: str) -> dict[str, Any]:
        return _bar(start, end, self.begin, self.scale, kind, title)


def _row(
    job: dict[str, Any], attempt: dict[str, Any], last: dict[str, Any] | None, picture: _Picture
) -> dict[str, Any]:
    over = attempt["finished_at"] or (job["finished_at"] if attempt["n"] == job["attempt"] else None) or picture.now
    started = attempt["started_at"]
    bars = _before(job, attempt, last, started or over, picture)
    if started is not None:
        phase = attempt["phase"]
        tone = "quiet" if _code(attempt) == "paused" else _TONES.get(phase, "info")
        bars.append(picture.bar(started, over, f"ran tone-{tone}", _("ran {time}")))
    return attempt | {
        "bars": bars,
        "seconds": (over - started).total_seconds() if started is not None else None,
        "starts": _starts(job, attempt),
    }


def _before(
    job: dict[str, Any], attempt: dict[str, Any], last: dict[str, Any] | None, until: datetime, picture: _Picture
) -> list[dict[str, Any]]:
    """The time before an attempt started: paused, then waiting for its turn; or resting, or waiting."""
    begun = attempt["created_at"]
    current = attempt["n"] == job["attempt"]
    if last is not None and _code(last) == "paused":
        goes_on = next((time for time in picture.resumed if begun <= time <= until), None)
        held_until = (
            until if current and job["paused"] else goes_on or begun
        )  # resumed while it was still being stopped
        bars = [picture.bar(begun, held_until, "held", _("paused {time}"))] if held_until > begun else []
        return [*bars, picture.bar(held_until, until, "waited", _("waited {time}"))] if held_until < until else bars
    if current and job["phase"] == "queued" and job["not_before"] is not None:
        return [picture.bar(begun, max(until, job["not_before"]), "rests", _("rests {time}"))]
    return [picture.bar(begun, until, "waited", _("waited {time}"))]


def _bar(start: datetime, end: datetime, begin: datetime, scale: float, kind: str, title: str) -> dict[str, Any]:
    length = max(end - start, timedelta()).total_seconds()
    width = max(length * scale, LEAST)
    x = min((start - begin).total_seconds() * scale, WIDTH - width)
    return {
        "x": f"{x:.1f}",
        "width": f"{width:.1f}",
        "kind": kind,
        "title": title.format(time=duration(length)),
    }


def _starts(job: dict[str, Any], attempt: dict[str, Any]) -> str:
    """When the attempt that is to come starts; empty for every other."""
    if attempt["n"] != job["attempt"] or job["phase"] != "queued":
        return ""
    if job["paused"]:
        return _("starts when the job is resumed")
    if job["not_before"] is not None:
        return _("rests until {time}").format(time=f"{job['not_before']:%Y-%m-%d %H:%M:%S} UTC")
    return _("starts when it is its turn")


def _code(attempt: dict[str, Any]) -> str | None:
    return (attempt["reason"] or {}).get("code")
