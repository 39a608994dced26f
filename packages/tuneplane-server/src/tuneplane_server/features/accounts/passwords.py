"""Passwords: argon2id (RFC 9106), hashed in a thread, few at a time because each takes 64 MiB."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _

if TYPE_CHECKING:
    from argon2 import PasswordHasher

MIN_LENGTH, MAX_LENGTH = 10, 1024
_AT_ONCE = 2


class Passwords:
    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def hash(self, password: str) -> str:
        async with self._slots:
            return await asyncio.to_thread(_hasher().hash, password)

    async def verify(self, stored: str | None, password: str) -> bool:
        """False for a wrong password. Without a stored hash the same time is spent, so that names cannot be probed."""
        async with self._slots:
            matched = await asyncio.to_thread(_verify, stored or _decoy(), password)
        return matched and stored is not None


def check_strength(password: str, username: str) -> None:
    """Raises `RefusedError` (`password-weak`) for a password that is short, endless, or the name itself."""
    problem = None
    if len(password) < MIN_LENGTH:
        problem = _("the password has fewer than {least} characters").format(least=MIN_LENGTH)
    elif len(password) > MAX_LENGTH:
        problem = _("the password has more than {most} characters").format(most=MAX_LENGTH)
    elif username and username.lower() in password.lower() and len(password) < len(username) + MIN_LENGTH:
        problem = _("the password is little more than the username")
    elif len(set(password)) < 5:
        problem = _("the password repeats too few characters")
    if problem:
        raise RefusedError(
            [Refusal("password-weak", problem, _("four random words make a good one"), field="password")]
        )


@functools.cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=3, memory_cost=64 * 1024, parallelism=1)


@functools.cache
def _decoy() -> str:
    return _hasher().hash("nobody has this password")


def _verify(stored: str, password: str) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return _hasher().verify(stored, password)
    except (VerificationError, InvalidHashError):
        return False
