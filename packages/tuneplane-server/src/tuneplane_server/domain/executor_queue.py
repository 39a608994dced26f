"""An attempt in the executor's own queue: what the ledger keeps of it, and when what has changed is worth an event.

Positions and estimates move all the time, and each event of a job is kept for good. So a change is written at most once in a
time that grows with the wait: an attempt that waits for a week has some hundred of them, not one for each look.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

_SHARE = 0.05  # of the time in the queue
_LEAST, _MOST = timedelta(minutes=1), timedelta(minutes=10)
# An estimate that differs by less than this, and by less than this share of the time that is left, is the same.
_SAME, _SAME_SHARE = timedelta(minutes=1), 0.05
_FACTS = ("word", "position", "starts_at")
# As people call it; the name of the executor where it has no other.
_NAMES = {"slurm": "Slurm"}

type Data = Mapping[str, Any]


def queue_name(executor: str) -> str:
    """Whose queue it is, for people: the same in every language."""
    return _NAMES.get(executor, executor)


def seen_in_queue(
    executor: str,
    reason: str,
    text: str,
    position: int | None,
    starts_at: datetime | None,
    since: datetime | None,
    now: datetime,
) -> dict[str, Any]:
    """What a look found, as the data of the condition `executor-queue`. `text`: a message id. Times are ISO 8601 with zone."""
    return {
        "queue": queue_name(executor),
        "word": reason,  # not `reason`: that is how an attempt ended, in the data of every event
        "text": text,
        "position": position,
        "starts_at": None if starts_at is None else starts_at.isoformat(),
        "since": None if since is None else since.isoformat(),
        "seen_at": now.isoformat(),
    }


def is_news(before: Data | None, seen: Data, in_queue_since: datetime) -> bool:
    """Whether to write `seen` down. `before`: what is written, None for nothing; `in_queue_since`: when that began."""
    if before is None or any(_unknown(before[name]) and not _unknown(seen[name]) for name in _FACTS):
        return True  # the backend takes a moment to say why it waits and where it stands
    now, last = datetime.fromisoformat(seen["seen_at"]), datetime.fromisoformat(before["seen_at"])
    rest = min(max(_SHARE * (now - in_queue_since), _LEAST), _MOST)
    return now - last >= rest and _differs(before, seen, now)


def _unknown(value: Any) -> bool:
    return value in (None, "", "None")


def _differs(before: Data, seen: Data, now: datetime) -> bool:
    if any(before[name] != seen[name] for name in ("word", "text", "position")):
        return True
    old, new = before["starts_at"], seen["starts_at"]
    if old is None or new is None:
        return bool(old != new)
    starts_at = datetime.fromisoformat(new)
    moved = abs(starts_at - datetime.fromisoformat(old))
    return moved >= max(_SAME, _SAME_SHARE * (starts_at - now))
