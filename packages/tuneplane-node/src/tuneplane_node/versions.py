"""Which versions of node and console may work together."""

from __future__ import annotations

import re

from tuneplane import __version__

VERSION = __version__  # the distributions of one release carry one number
_NUMBERS = re.compile(r"v?(\d{1,6})\.(\d{1,6})(?:\D|\Z)")


def fit(ours: str, theirs: str) -> bool:
    """Of one major version, and at most one minor apart. What is no version fits nothing."""
    mine, other = _NUMBERS.match(ours), _NUMBERS.match(theirs)
    if mine is None or other is None:
        return False
    return mine[1] == other[1] and abs(int(mine[2]) - int(other[2])) <= 1
