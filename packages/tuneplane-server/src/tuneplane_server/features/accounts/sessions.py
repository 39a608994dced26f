"""Browser sessions: a signed JWT (HS256) in a cookie, and the CSRF token that belongs to it."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

COOKIE = "tuneplane_session"
SECURE_COOKIE = "__Host-tuneplane_session"  # the browser itself guarantees https, this host and path /
_AUDIENCE = "tuneplane-console"
_PURPOSE_CSRF = b"csrf:"


@dataclass(frozen=True)
class Session:
    """What a cookie says. Whether the user still exists and `epoch` still counts is asked of the database."""

    id: str
    user_id: str
    epoch: int


class SessionSigner:
    """`key`: at least 32 characters; everyone is signed out when it changes."""

    def __init__(self, key: str, lifetime: timedelta) -> None:
        self._key, self.lifetime = key.encode(), lifetime

    def issue(self, user_id: str, epoch: int, now: datetime) -> str:
        from joserfc import jwt
        from joserfc.jwk import OctKey

        claims: dict[str, Any] = {
            "sub": user_id,
            "sid": secrets.token_urlsafe(16),
            "epoch": epoch,
            "aud": _AUDIENCE,
            "iat": int(now.timestamp()),
            "exp": int((now + self.lifetime).timestamp()),
        }
        return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(self._key))

    def read(self, cookie: str, now: datetime) -> Session | None:
        """The session of a cookie; None when it is not ours, altered or expired."""
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import OctKey

        try:
            claims = jwt.decode(cookie, OctKey.import_key(self._key), algorithms=["HS256"]).claims
        except (JoseError, ValueError, TypeError):
            return None
        identity = (claims.get("sid"), claims.get("sub"), claims.get("epoch"), claims.get("exp"))
        sid, user_id, epoch, expires = identity
        if claims.get("aud") != _AUDIENCE or not isinstance(sid, str) or not isinstance(user_id, str):
            return None
        if not isinstance(epoch, int) or not isinstance(expires, int) or expires <= now.timestamp():
            return None
        return Session(sid, user_id, epoch)

    def csrf_token(self, session_id: str) -> str:
        """The token that forms of this session carry; another site cannot know it."""
        return hmac.new(self._key, _PURPOSE_CSRF + session_id.encode(), hashlib.sha256).hexdigest()

    def csrf_matches(self, session_id: str, token: str) -> bool:
        return hmac.compare_digest(self.csrf_token(session_id).encode(), token.encode())


def load_key(configured: str | None, file: Path) -> str:
    """The signing key: the configured one, else that of the key file, which is made (0600) on first use."""
    if configured:
        return configured
    if not file.exists():
        _write_key(file)
    return file.read_text(encoding="ascii").strip()


def _write_key(file: Path) -> None:
    """Complete or not there: two consoles that start together end with the same key."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = file.with_name(f"{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as handle:
            handle.write(secrets.token_urlsafe(48) + "\n")
            handle.flush()
            os.fsync(handle.fileno())
        with suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink()
