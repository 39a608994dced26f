"""Tells the console that the runner lives, and learns of a cancel that the executor could not deliver."""

from __future__ import annotations

import random
import threading
from time import time
from typing import Any, Callable, Dict

from tuneplane.runner.wire import IngestClient


class Heartbeat:
    """A thread with its own connection: a slow upload must not look like a dead runner."""

    def __init__(
        self,
        client: IngestClient,
        attempt: int,
        rank: int,
        seconds: float,
        on_cancel: Callable[[], None],
        on_token: Callable[[str], None],
    ) -> None:
        self.state = "preparing"
        self._client = client
        self._identity: Dict[str, Any] = {"attempt": attempt, "rank": rank}
        self._seconds = max(0.2, seconds)
        self._on_cancel = on_cancel
        self._on_token = on_token
        self._stop = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="tuneplane-heartbeat", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            kind = self._beat()
            # A revoked token does not come back; asking seldom is enough to learn if it does.
            pause = self._seconds * (6 if kind == "denied" else 1)
            self._stop.wait(pause * (0.9 + 0.2 * random.random()))  # noqa: S311 - spreads load, guards nothing
        self._client.close()

    def _beat(self) -> str:
        answer = self._client.send_heartbeat(dict(self._identity, state=self.state, time=time()))
        if answer.kind == "ok":
            token = answer.body.get("token")
            if isinstance(token, str) and token:
                self._client.set_token(token)
                self._on_token(token)
            if answer.body.get("desired") == "cancel":
                self._on_cancel()
        return answer.kind
