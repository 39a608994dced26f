"""An attempt in the executor's own queue, as a sentence in the reader's language: whose queue, why, which place, about when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tuneplane.i18n import _
from tuneplane_server.features.queue.texts import joined, time_text


def in_queue_text(data: Mapping[str, Any]) -> str:
    """`data`: of the condition `executor-queue`, as `domain.executor_queue.seen_in_queue` makes it."""
    clauses = [_("waits in the queue of {queue}: {why}").format(queue=data.get("queue", "?"), why=_why(data))]
    if data.get("position") is not None:
        clauses.append(_("number {position} in line").format(position=data["position"]))
    starts_at = time_of(data.get("starts_at"))
    if starts_at is not None:
        now = time_of(data.get("seen_at")) or datetime.now(UTC)
        clauses.append(_("starts at about {time}").format(time=time_text(starts_at, now)))
    return joined(clauses)


def time_of(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)


def _why(data: Mapping[str, Any]) -> str:
    """In plain words, and the backend's own word for those who know it."""
    text, word = str(data.get("text") or ""), str(data.get("word") or "")
    if not text:
        return word or _("it does not say why")
    return _("{text} ({word})").format(text=_(text), word=word) if word else _(text)
