"""Ports for servers of the tests. Also for the tests that run on CPython 3.9."""

from __future__ import annotations

import random
import socket

# Below the range from which the kernel gives connections their own port: one of them may have taken a port of ours by the time
# its server starts, or starts again. Some servers take the number plus 10000 as well.
FIRST, LAST = 10_000, 30_000
_given: set[int] = set()
_dice = random.SystemRandom()  # each worker draws others


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on and that this process was not given before."""
    for _try in range(1000):
        port = _dice.randrange(FIRST, LAST)
        if port not in _given and _is_free(port):
            _given.add(port)
            return port
    raise AssertionError(f"no free port from {FIRST} to {LAST}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
