"""Random tokens and how they are kept: only their SHA-256, which is enough because they are 256 random bits."""

from __future__ import annotations

import hashlib
import hmac
import secrets

API_TOKEN_PREFIX = "tp_"  # noqa: S105 - a prefix that secret scanners can look for
# No vowels and nothing that looks like another letter, so that a code is easy to read out and never a word.
USER_CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"


def new_secret(prefix: str = "") -> str:
    return prefix + secrets.token_urlsafe(32)


def new_user_code() -> str:
    """`XXXX-XXXX`: 34 bits, guarded by expiry and rate limits."""
    letters = "".join(secrets.choice(USER_CODE_LETTERS) for _position in range(8))
    return f"{letters[:4]}-{letters[4:]}"


def normal_user_code(typed: str) -> str:
    """The code as stored for what a person typed: case, spaces and the dash do not matter."""
    letters = "".join(character for character in typed.upper() if character in USER_CODE_LETTERS)[:8]
    return f"{letters[:4]}-{letters[4:]}"


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def matches(secret: str, stored_digest: str) -> bool:
    """Constant-time comparison of a secret with a stored digest."""
    return hmac.compare_digest(digest(secret), stored_digest)
