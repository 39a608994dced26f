"""The console's ingest over one kept-alive connection (docs/en/reference/ingest)."""

from __future__ import annotations

import gzip
import http.client
import json
from typing import Any, Dict, List, NamedTuple, Optional
from urllib.parse import urlsplit

from tuneplane.runner import limits
from tuneplane.runner.backoff import parse_retry_after

_NETWORK_ERRORS = (OSError, http.client.HTTPException)


class Answer(NamedTuple):
    """`kind`: `ok`; `later` (try again, after `retry_after` seconds when given); `smaller` (the batch is too large);
    `refused` (it will never be taken); `denied` (the token is no longer good). `body` is the JSON object of the answer."""

    kind: str
    body: Dict[str, Any]
    detail: str = ""
    retry_after: Optional[float] = None


class IngestClient:
    """Speaks to `<base>/batches` and `<base>/heartbeat`. One thread at a time; every wait is bounded; never raises for the network."""

    def __init__(self, base_url: str, token: str) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("the ingest URL must be http(s)://host/…")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._path = parts.path.rstrip("/")
        self._token = token
        self._connection: Optional[http.client.HTTPConnection] = None

    def set_token(self, token: str) -> None:
        self._token = token

    def send_batch(self, payloads: List[bytes], timeout: float = limits.REQUEST_SECONDS) -> Answer:
        body = gzip.compress(b"\n".join(payloads) + b"\n", compresslevel=1)
        headers = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
        answer = self._post("/batches", body, headers, timeout)
        if answer.kind == "ok" and not isinstance(answer.body.get("ack"), dict):
            return Answer("later", {}, "the answer is not one of ingest; something else listens at this address")
        return answer

    def send_heartbeat(self, heartbeat: Dict[str, Any], timeout: float = limits.CONNECT_SECONDS) -> Answer:
        body = json.dumps(heartbeat).encode("ascii")
        return self._post("/heartbeat", body, {"Content-Type": "application/json"}, timeout)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _post(self, path: str, body: bytes, headers: Dict[str, str], timeout: float) -> Answer:
        headers["Authorization"] = f"Bearer {self._token}"
        headers["Accept"] = "application/json"
        kept_alive = self._connection is not None
        try:
            return self._request(path, body, headers, timeout)
        except _NETWORK_ERRORS as error:
            self.close()
            if not kept_alive or isinstance(error, TimeoutError):
                return _unreachable(error)
        # A connection kept alive may have been closed by the other side meanwhile: one try on a new one. The console tells
        # apart what it has already stored.
        try:
            return self._request(path, body, headers, timeout)
        except _NETWORK_ERRORS as error:
            self.close()
            return _unreachable(error)

    def _request(self, path: str, body: bytes, headers: Dict[str, str], timeout: float) -> Answer:
        if self._connection is None:
            self._connection = self._connect()
        connection = self._connection
        connection.timeout = min(timeout, limits.CONNECT_SECONDS)
        if connection.sock is None:
            connection.connect()
        connection.sock.settimeout(max(0.1, timeout))
        connection.request("POST", self._path + path, body, headers)
        response = connection.getresponse()
        content = response.read(limits.ANSWER_BYTES)
        if response.read(1) or response.will_close:
            self.close()
        retry_after = parse_retry_after(response.headers.get("Retry-After"))
        return _classify(response.status, content, retry_after)

    def _connect(self) -> http.client.HTTPConnection:
        if self._secure:
            return http.client.HTTPSConnection(self._host, self._port)
        return http.client.HTTPConnection(self._host, self._port)


def _unreachable(error: Exception) -> Answer:
    return Answer("later", {}, f"the console cannot be reached: {type(error).__name__}: {error}")


def _classify(status: int, content: bytes, retry_after: Optional[float]) -> Answer:
    body = _json_object(content)
    code = body.get("code") or body.get("title") or ""
    detail = f"the console answered {status}" + (f" ({code})" if code else "")
    if status == 200:
        return Answer("ok", body) if body else Answer("later", {}, "the console answered 200 without a JSON object")
    if status in (401, 403):
        return Answer("denied", body, detail)
    if status == 413:
        return Answer("smaller", body, detail)
    # Only ingest itself may refuse records for good; a proxy's own 400 page must not cost any.
    if status in (400, 422) and isinstance(body.get("code"), str):
        return Answer("refused", body, f"{detail}: {str(body.get('detail', ''))[:300]}")
    return Answer("later", body, detail, retry_after)


def _json_object(content: bytes) -> Dict[str, Any]:
    try:
        value = json.loads(content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
