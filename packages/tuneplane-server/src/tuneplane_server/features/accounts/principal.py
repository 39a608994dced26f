"""Who asks: the identity every endpoint and service works with."""

from __future__ import annotations

from dataclasses import dataclass

READ, WRITE, ADMIN = "read", "write", "admin"
SCOPES = (READ, WRITE, ADMIN)  # ADMIN gives nothing to a user who is no administrator


@dataclass(frozen=True, slots=True)
class Principal:
    """`scopes`: what this credential may do; a browser session may do all the user may. `credential`: token or session id."""

    user_id: str
    username: str
    admin: bool
    scopes: frozenset[str]
    token_id: str | None = None
    session_id: str | None = None

    @property
    def acts_as_admin(self) -> bool:
        """Whether everything of everyone is open: the user is an administrator and the credential says so."""
        return self.admin and ADMIN in self.scopes
