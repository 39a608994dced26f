"""Samples as cards. Their data comes from training scripts, so every field may be missing or of another kind."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from tuneplane_server.console.i18n import N_
from tuneplane_server.features.telemetry.sample_reader import Order, SampleItem

KINDS = {
    "completion": N_("completions"),
    "preference": N_("preference pairs"),
    "conversation": N_("conversations"),
}
ORDERS: dict[Order, str] = {
    "newest": N_("newest first"),
    "oldest": N_("oldest first"),
    "highest": N_("highest reward first"),
    "lowest": N_("lowest reward first"),
}
_ROLES = {"system", "user", "assistant", "tool"}
# Without any of these there is nothing to lay out: the data is shown as it is.
_KNOWN = {"completion": {"prompt", "completion"}, "preference": {"chosen", "rejected"}, "conversation": {"messages"}}
_NUMBER_WORDS = {"NaN", "Infinity", "-Infinity"}


def present(sample: SampleItem) -> dict[str, Any]:
    """The fields of a sample's card: prompt, completion or chosen and rejected, rewards, messages."""
    data: dict[str, Any] = sample.data if isinstance(sample.data, dict) else {}
    rewards = data.get("rewards")
    parts = {str(name): _number(value) for name, value in rewards.items()} if isinstance(rewards, dict) else {}
    return {
        "id": sample.id,
        "attempt": sample.attempt,
        "rank": sample.rank,
        "step": sample.step,
        "time": sample.time,
        "kind": sample.kind,
        "prompt": text_of(data.get("prompt")),
        "completion": text_of(data.get("completion")),
        "chosen": text_of(data.get("chosen")),
        "rejected": text_of(data.get("rejected")),
        "reward": _number(data.get("reward")),
        "score": sample.reward,
        "rewards": parts,
        "bars": _bars(parts),
        "chosen_reward": _number(data.get("chosen_reward")),
        "rejected_reward": _number(data.get("rejected_reward")),
        "messages": messages_of(data.get("messages")),
        "other": text_of(sample.data) if not _KNOWN.get(sample.kind, set()) & data.keys() else "",
    }


def text_of(value: Any) -> str:
    """A text; a chat as its lines with the roles in front; anything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    chat = messages_of(value)
    if chat and len(chat) == len(value):
        return chat[0]["content"] if len(chat) == 1 else "\n\n".join(f"{m['role']}: {m['content']}" for m in chat)
    return json.dumps(value, ensure_ascii=False, indent=1)


def messages_of(value: Any) -> list[dict[str, str]]:
    """The turns of a chat: {role, content, known_role}; what is no turn is left out."""
    if not isinstance(value, list):
        return []
    turns = [turn for turn in value if isinstance(turn, dict) and "content" in turn]
    return [
        {
            "role": (role := str(turn.get("role", ""))),
            "known_role": role if role in _ROLES else "other",
            "content": text_of(turn["content"]),
        }
        for turn in turns
    ]


def _bars(parts: dict[str, Any]) -> list[dict[str, Any]]:
    """[{name, value, share, side}] of the parts of a reward: `share` 0 … 20 of the longest, `side` plus or minus."""
    numbers = [abs(value) for value in parts.values() if isinstance(value, int | float) and isfinite(value)]
    longest = max(numbers, default=0) or 1
    return [
        {
            "name": name,
            "value": value,
            "share": round(20 * min(1, abs(value) / longest))
            if isinstance(value, int | float) and isfinite(value)
            else 0,
            "side": "minus" if isinstance(value, int | float) and value < 0 else "plus",
        }
        for name, value in parts.items()
    ]


def _number(value: Any) -> Any:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return value if known or value in _NUMBER_WORDS else None
