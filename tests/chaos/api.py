"""The console's API for a test that kills the console: a call is repeated until somebody answers."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

ANSWER_SECONDS = 90.0  # a console that is started again on a loaded machine
_AWAY = (502, 503, 504)


class NoAnswerError(Exception):
    """Nobody answered in time; for a single try, nobody answered at all."""


class ConflictError(AssertionError):
    """The state does not fit what was asked."""


class Api:
    """Calls of one user. What changes something carries what makes its repetition harmless."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token

    def submit(self, spec: dict[str, Any], key: str) -> str:
        """The run id. `key` makes one run of however many tries it takes."""
        run: str = self._until_answered("POST", "/jobs", body=spec, headers={"Idempotency-Key": key})["id"]
        return run

    def cancel(self, run: str) -> dict[str, Any]:
        """The job as the console answered once the cancel was in its ledger; as it is, when it is over."""
        try:
            job: dict[str, Any] = self._until_answered("POST", f"/jobs/{run}/cancel")
        except ConflictError:  # perhaps by an earlier try of this cancel, whose answer was lost
            job = self.get(f"/jobs/{run}")
        return job

    def get(self, path: str, **query: Any) -> Any:
        return self._until_answered("GET", _path(path, query))

    def try_get(self, path: str, **query: Any) -> Any:
        """One try; raises NoAnswerError when the console is away."""
        return self._ask("GET", _path(path, query))

    def items(self, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        """Every item of a list, page after page."""
        cursor = None
        while True:
            page = self.get(path, **query, **({} if cursor is None else {"cursor": cursor}))
            yield from page["items"]
            following = page["next_cursor"]
            # A list of logs always says where it would go on; its end is told apart.
            if following is None or page.get("end") or not page["items"]:
                return
            cursor = following

    def _until_answered(self, method: str, path: str, **more: Any) -> Any:
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                return self._ask(method, path, **more)
            except NoAnswerError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        request = urllib.request.Request(
            f"{self._url}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json", **(headers or {})},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return json.loads(reply.read())
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")
            if error.code in _AWAY:
                raise NoAnswerError(said) from error
            kind = ConflictError if error.code == HTTPStatus.CONFLICT else AssertionError
            raise kind(f"{method} {path}: {error.code} {said}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:  # killed before, during or after its answer
            raise NoAnswerError(f"{method} {path}: {error!r}") from error


def _path(path: str, query: dict[str, Any]) -> str:
    return f"{path}?{urlencode(query)}" if query else path
