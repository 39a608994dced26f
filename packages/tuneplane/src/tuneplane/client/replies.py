"""Turn one HTTP answer into its value, or into the one error that says what happened."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from tuneplane.client.errors import NotFoundError, NotSignedInError, ProblemError, UnreachableError
from tuneplane.client.shapes import mismatch
from tuneplane.contract.refusals import REFUSAL_CODES, Refusal, RefusedError
from tuneplane.i18n import _

if TYPE_CHECKING:
    import httpx2

MAX_REPLY_BYTES = 64 * 1024 * 1024
MAX_REPLY_SECONDS = 120.0  # a server that sends a byte now and then must not hold the client for ever


def read_body(response: httpx2.Response, server: str) -> bytes:
    """The whole body, bounded in size and time."""
    deadline = time.monotonic() + MAX_REPLY_SECONDS
    parts, size = [], 0
    for part in response.iter_bytes():
        parts.append(part)
        size += len(part)
        if size > MAX_REPLY_BYTES:
            raise odd(server, _("the answer is larger than {limit} MB").format(limit=MAX_REPLY_BYTES // 1024 // 1024))
        if time.monotonic() > deadline:
            raise odd(server, _("the answer did not end within {seconds} s").format(seconds=int(MAX_REPLY_SECONDS)))
    return b"".join(parts)


def parse_reply(response: httpx2.Response, body: bytes, shape: Any, server: str) -> Any:
    """The JSON value of a good answer, checked against `shape` (see `client.types`); raises for every other answer."""
    if not response.is_success:
        raise failure(response, body, server)
    value = _json(response, body, server)
    wrong = mismatch(value, shape)
    if wrong:
        raise odd(server, _("the answer has another shape than expected ({what})").format(what=wrong))
    return value


def failure(response: httpx2.Response, body: bytes, server: str) -> Exception:
    """The error for an answer with a status other than 2xx."""
    if response.is_redirect:
        target = response.headers.get("location", "")
        return odd(
            server,
            _("it sends the client elsewhere ({target})").format(target=target[:200]),
            _("use the address it points to, or one that needs no sign-in page in front of the console"),
        )
    problem = _problem(response, body)
    if problem is None:
        if response.status_code == 401:
            return not_signed_in(server)
        return odd(server, _describe(response, body))
    code = str(problem.get("code") or "")
    detail = _text(problem, "detail") or _text(problem, "title") or f"HTTP {response.status_code}"
    hint = _text(problem, "hint")
    if response.status_code >= 500 and response.status_code != 507:
        return UnreachableError(
            _("the console at {server} could not answer: {detail}").format(server=server, detail=detail),
            hint or _("try again in a while; the console's own log says more"),
            code or "internal-error",
        )
    if response.status_code == 401:
        return not_signed_in(server)
    refusals = _refusals(problem)
    if response.status_code in (403, 422) or (refusals and response.status_code not in (401, 404, 409, 429, 400)):
        return RefusedError(refusals or [_refusal({"code": code, "message": detail, "hint": hint})])
    kind = NotFoundError if response.status_code == 404 else ProblemError
    return kind(response.status_code, detail, hint, code or f"http-{response.status_code}")


def not_signed_in(server: str) -> NotSignedInError:
    return NotSignedInError(
        _("not logged in to {server}, or the token is no longer valid").format(server=server),
        _("log in with: tp login {server}").format(server=server),
    )


def odd(server: str, what: str, hint: str = "") -> UnreachableError:
    """Something answered at the console's address, and not as a console does."""
    return UnreachableError(
        _("{server} does not answer as a TunePlane console: {what}").format(server=server, what=what),
        hint or _("check the address (tp server ls), and proxies between here and there"),
        "bad-answer",
    )


def to_refusal(value: Any) -> Refusal:
    """A refusal from the wire; one with a code that this client does not know yet keeps its text."""
    return _refusal(value if isinstance(value, dict) else {"message": str(value)})


def _json(response: httpx2.Response, body: bytes, server: str) -> Any:
    if not body:
        raise odd(server, _("the answer is empty"))
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise odd(server, _describe(response, body)) from None


def _problem(response: httpx2.Response, body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    is_problem = isinstance(value, dict) and ("detail" in value or "title" in value or "code" in value)
    return value if is_problem else None


def _describe(response: httpx2.Response, body: bytes) -> str:
    status = f"HTTP {response.status_code}"
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body.lstrip()[:1] == b"<" or kind == "text/html":
        return _("{status} with a web page instead of data").format(status=status)
    if not body:
        return _("{status} with an empty answer").format(status=status)
    if body.lstrip()[:1] in (b"{", b"["):
        return _("{status} with an answer that cannot be read as JSON or is none of its messages").format(status=status)
    return _("{status} with something else than JSON").format(status=status)


def _refusals(problem: dict[str, Any]) -> list[Refusal]:
    found = problem.get("refusals")
    return [_refusal(item) for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _refusal(item: dict[str, Any]) -> Refusal:
    code, message = str(item.get("code") or ""), _text(item, "message")
    known = code if code in REFUSAL_CODES else "request-invalid"
    if code and code != known:
        message = f"{message} ({code})" if message else code
    line = item.get("line")
    return Refusal(
        known,
        message or _("refused without a reason"),
        _text(item, "hint"),
        field=_text(item, "field"),
        file=_text(item, "file"),
        line=line if isinstance(line, int) and not isinstance(line, bool) else 0,
    )


def _text(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    return value[:4000] if isinstance(value, str) else ""
