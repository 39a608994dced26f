"""The JSON Web Token of the user: read from its file for each call, because what renews it is not us."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

MAX_TOKEN = 64 * 1024


class TokenError(Exception):
    """No token can be had; the text says why and holds nothing of one."""


class Token:
    """`source`: the token itself, its file, or what gives the one that is valid now."""

    def __init__(self, source: str | Path | Callable[[], str]) -> None:
        self._source = source

    def __repr__(self) -> str:
        return "Token()"

    def read(self) -> str:
        """The token of now. A file may hold it alone or, as `scontrol token` prints it, after `SLURM_JWT=`. Raises TokenError."""
        if isinstance(self._source, Path):
            text = _file(self._source)
        else:
            text = self._source if isinstance(self._source, str) else self._source()
        text = text.strip().removeprefix("SLURM_JWT=").strip()
        if not text:
            raise TokenError(f"{self.name} is empty")
        if not text.isascii() or not text.isprintable() or " " in text:
            raise TokenError(f"{self.name} holds more than one token or something else than a token")
        return text

    async def read_beside(self) -> str:
        """The same without holding up the loop: a file may lie on a file system that does not answer."""
        return await asyncio.to_thread(self.read)

    @property
    def name(self) -> str:
        """For people."""
        return f"the token file {self._source}" if isinstance(self._source, Path) else "the token"


def expires_at(token: str) -> datetime | None:
    """The `exp` of a JSON Web Token (RFC 7519 §4.1.4), its signature not looked at. None when it says none."""
    return _claimed(token, "exp")


def issued_at(token: str) -> datetime | None:
    """Its `iat` (§4.1.6), the same way."""
    return _claimed(token, "iat")


def _claimed(token: str, name: str) -> datetime | None:
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return datetime.fromtimestamp(float(claims[name]), UTC)
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, OSError, binascii.Error):
        return None


def _file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_TOKEN + 1)
    except OSError as problem:
        raise TokenError(f"the token file {path} cannot be read: {problem.strerror}") from None
    if len(content) > MAX_TOKEN:
        raise TokenError(f"the token file {path} is larger than {MAX_TOKEN} bytes")
    return content.decode(errors="replace")
