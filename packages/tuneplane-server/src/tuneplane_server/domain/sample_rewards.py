"""What a sample scored, as one number: its reward, or how far a preferred answer is above the rejected one."""

from __future__ import annotations

import math
from typing import Any

import msgspec


class _Scores(msgspec.Struct):
    """Data comes from training scripts: every field may be missing or of another kind."""

    reward: Any = None
    chosen_reward: Any = None
    rejected_reward: Any = None


_decoder = msgspec.json.Decoder(_Scores)


def reward_of(data: bytes) -> float | None:
    """`data`: the sample's JSON. None when it has no reward that is a number."""
    try:
        scores = _decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
    reward = _number(scores.reward)
    if reward is not None:
        return reward
    chosen, rejected = _number(scores.chosen_reward), _number(scores.rejected_reward)
    return None if chosen is None or rejected is None else _number(chosen - rejected)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and value not in ("Infinity", "-Infinity"):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return None if math.isnan(number) else number
