"""Secrets at rest: sealed with a key that is not in the database. On one machine a key file (0600), for a team a key from outside."""

from __future__ import annotations

import base64
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tuneplane.i18n import _
from tuneplane_server.settings import SettingsError, variable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE_BYTES = 12
_VERSION = b"\x01"


class SealError(Exception):
    """What was sealed cannot be opened: another key, or damaged."""


class Sealer:
    """AES-256-GCM; `about` binds a secret to where it belongs, so that a row moved elsewhere does not open."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, secret: str, about: str) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return _VERSION + nonce + self._cipher().encrypt(nonce, secret.encode(), about.encode())

    def open(self, sealed: bytes, about: str) -> str:
        """Raises `SealError`."""
        from cryptography.exceptions import InvalidTag

        start = len(_VERSION) + _NONCE_BYTES
        if sealed[:1] != _VERSION or len(sealed) <= start:
            raise SealError("not sealed by this console")
        try:
            return self._cipher().decrypt(sealed[1:start], sealed[start:], about.encode()).decode()
        except InvalidTag:
            raise SealError("sealed with another key, or damaged") from None

    def _cipher(self) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # a large import that most processes never need

        return AESGCM(self._key)


def load_sealer(given: str | None, path: Path) -> Sealer:
    """The key that was set (base64 of 32 bytes), else that of the file, made (0600) when there is none. Raises `SettingsError`."""
    if given is not None:
        try:
            key = base64.b64decode(given, validate=True)
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise SettingsError(
                _(
                    "{variable}: must be the base64 of {count} random bytes, as `openssl rand -base64 {count}` prints"
                ).format(variable=variable("secrets_key"), count=KEY_BYTES)
            )
        return Sealer(key)
    return Sealer(_key_of(path))


def _key_of(path: Path) -> bytes:
    if not path.exists():
        _write_key(path)
    return _read(path)


def _write_key(path: Path) -> None:
    """Complete or not there: two consoles that start together end with the same key."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()


def _read(path: Path) -> bytes:
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise SettingsError(
            _("{path} is no key file: it has {found} bytes instead of {count}; restore it from your backup").format(
                path=path, found=len(key), count=KEY_BYTES
            )
        )
    return key
