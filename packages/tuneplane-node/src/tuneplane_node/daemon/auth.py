"""Who may call this node: whoever has the token that it shares with the console.

A wrong token is 401 whatever is asked for, compared in constant time; an address that keeps trying is not even compared for a
while. Each refusal is a line in the log, without the token.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tuneplane_node.daemon.answers import Answers
from tuneplane_node.engine.problems import NodeError

WRONG_TRIES = 20
WINDOW_SECONDS = 60.0
MOST_ADDRESSES = 4096
_LOG = logging.getLogger("tuneplane_node.audit")


class WrongTokens:
    """How often each address was wrong lately. When there are too many addresses to remember, the oldest are forgotten: a
    token of 16 characters is not guessed at that rate either."""

    def __init__(self, tries: int = WRONG_TRIES, clock: Callable[[], float] = time.monotonic) -> None:
        self._tries, self._clock = tries, clock
        self._seen: dict[str, tuple[float, int]] = {}  # address -> when its window began, how often

    def blocked_for(self, address: str) -> float:
        """Seconds until it may try again; 0 when it may now."""
        began, count = self._seen.get(address, (0.0, 0))
        left = began + WINDOW_SECONDS - self._clock()
        return max(0.0, left) if count >= self._tries else 0.0

    def note(self, address: str) -> int:
        """How often it was wrong in this window, this time included."""
        now = self._clock()
        began, count = self._seen.pop(address, (now, 0))
        if now - began >= WINDOW_SECONDS:
            began, count = now, 0
        self._seen[address] = (began, count + 1)
        if len(self._seen) > MOST_ADDRESSES:
            del self._seen[next(iter(self._seen))]
        return count + 1


class TokenGate:
    """ASGI: lets through what carries the token. `token` gives the one that is valid now."""

    def __init__(
        self, app: ASGIApp, token: Callable[[], str], answers: Answers, wrong: WrongTokens | None = None
    ) -> None:
        self._app, self._token, self._answers, self._wrong = app, token, answers, wrong or WrongTokens()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        address = scope["client"][0] if scope.get("client") else "?"
        seconds = self._wrong.blocked_for(address)
        if seconds:
            answer = self._answers.refusal(NodeError("token-tries"), 429, {"Retry-After": str(int(seconds) + 1)})
            await answer(scope, receive, send)
            return
        given = Headers(scope=scope).get("authorization", "")
        if self._is_right(given):
            await self._app(scope, receive, send)
            return
        count = self._wrong.note(address)
        path = Request(scope).url.path[:200]
        what = "wrong token" if given else "no token"
        _LOG.warning("%s from %s (%d of %d): %s %r", what, address, count, WRONG_TRIES, scope["method"], path)
        answer = self._answers.refusal(NodeError("token-wrong"), 401, {"WWW-Authenticate": "Bearer"})
        await answer(scope, receive, send)

    def _is_right(self, header: str) -> bool:
        scheme, _space, given = header.partition(" ")
        # Digests are of one length, so that the time tells nothing of the token's own.
        mine, theirs = (
            hashlib.sha256(text.encode("utf-8", "replace")).digest() for text in (self._token(), given.strip())
        )
        return hmac.compare_digest(mine, theirs) and scheme.lower() == "bearer"
