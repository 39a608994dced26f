"""Quick password hashes for the consoles of tests: the product's cost a tenth of a second each, which is what they are for.

`accounts/test_passwords.py` looks at the product's own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager

from argon2 import PasswordHasher

from tuneplane_server.features.accounts import passwords

real_hasher = passwords._hasher


@functools.cache
def quick_hasher() -> PasswordHasher:
    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@contextmanager
def quick_hashes() -> Iterator[None]:
    passwords._hasher = quick_hasher
    yield
    passwords._hasher = real_hasher
