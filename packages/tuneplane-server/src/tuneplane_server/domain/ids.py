"""Ids that sort by creation time: 48 bits of milliseconds and 32 of randomness in lower-case Crockford base 32."""

from __future__ import annotations

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford: no i, l, o, u
LENGTH = 16
RANDOM_BYTES = 4


def make_id(milliseconds: int, randomness: bytes) -> str:
    """A 16-character id. `milliseconds`: Unix time, 0 ≤ ms < 2**48 (until the year 10889); `randomness`: 4 bytes."""
    if not 0 <= milliseconds < 1 << 48:
        raise ValueError(f"{milliseconds} ms is outside the years an id can hold")
    if len(randomness) != RANDOM_BYTES:
        raise ValueError(f"an id needs {RANDOM_BYTES} random bytes, not {len(randomness)}")
    number = milliseconds << 32 | int.from_bytes(randomness, "big")
    return "".join(ALPHABET[number >> shift & 31] for shift in range(5 * (LENGTH - 1), -1, -5))


def created_at_ms(identifier: str) -> int:
    """Milliseconds since 1970 at which the id was made; raises `ValueError` for text that is no id."""
    if len(identifier) != LENGTH:
        raise ValueError("not an id")
    number = 0
    for character in identifier:
        number = number << 5 | ALPHABET.index(character)
    return number >> 32
