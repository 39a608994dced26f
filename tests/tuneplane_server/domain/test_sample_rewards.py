"""What a sample scored, whatever a training script wrote."""

from __future__ import annotations

import math

import pytest

from tuneplane_server.domain.sample_rewards import reward_of


@pytest.mark.parametrize(
    ("data", "reward"),
    [
        (b'{"reward": 1}', 1.0),
        (b'{"reward": -0.5, "chosen_reward": 9, "rejected_reward": 1}', -0.5),
        (b'{"reward": "Infinity"}', math.inf),
        (b'{"reward": "-Infinity"}', -math.inf),
        (b'{"chosen_reward": 2.5, "rejected_reward": 1}', 1.5),
        (b'{"chosen_reward": 2.5}', None),
        (b'{"rejected_reward": 2.5}', None),
        (b'{"chosen_reward": "Infinity", "rejected_reward": "Infinity"}', None),
        (b'{"reward": "NaN"}', None),
        (b'{"reward": "high"}', None),
        (b'{"reward": true}', None),
        (b'{"reward": [1]}', None),
        (b'{"reward": 123456789012345678901234567890}', 123456789012345678901234567890.0),
        (b'{"reward": 1' + b"0" * 400 + b"}", None),
        (b"{}", None),
        (b"[1]", None),
        (b"{", None),
    ],
)
def test_the_reward_of_a_sample(data: bytes, reward: float | None) -> None:
    assert reward_of(data) == reward
