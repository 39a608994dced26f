"""Pure ASGI layers around the app; none of them buffers, so streams and uploads pass through."""

from __future__ import annotations

from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tuneplane.i18n import LANGUAGES, _, using_language
from tuneplane_server.turns import Callers
from tuneplane_server.web.problems import ProblemError

LANGUAGE_COOKIE = "tuneplane_language"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; manifest-src 'self'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=()",
}


class SecurityHeadersMiddleware:
    """Strict headers on every answer; an endpoint that sets one itself keeps its own."""

    def __init__(self, app: ASGIApp, *, https: bool) -> None:
        self._app = app
        self._headers = dict(SECURITY_HEADERS)
        if https:
            self._headers["Strict-Transport-Security"] = "max-age=31536000"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers)


class CallersMiddleware:
    """Counts who waits for an answer. A stream is answered when it begins."""

    def __init__(self, app: ASGIApp, *, callers: Callers) -> None:
        self._app, self._callers = app, callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        waiting = True

        async def answered(message: Message) -> None:
            nonlocal waiting
            if waiting and message["type"] == "http.response.start":
                waiting = False
                self._callers.waiting -= 1
            await send(message)

        self._callers.waiting += 1
        try:
            await self._app(scope, receive, answered)
        finally:
            if waiting:
                self._callers.waiting -= 1


class LanguageMiddleware:
    """The request's language for `_`: the language cookie, else Accept-Language, else English."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with using_language(language_of(Headers(scope=scope))):
            await self._app(scope, receive, send)


def language_of(headers: Headers) -> str:
    try:
        chosen = SimpleCookie(headers.get("cookie", "")).get(LANGUAGE_COOKIE)
    except CookieError:
        chosen = None
    if chosen is not None and chosen.value in LANGUAGES:
        return chosen.value
    return _accepted(headers.get("accept-language", ""))


def _accepted(header: str) -> str:
    """The first language we speak by weight (RFC 9110 §12.5.4)."""
    weighted: list[tuple[float, int, str]] = []
    for index, part in enumerate(header[:500].split(",")):
        tag, _semicolon, parameter = part.strip().partition(";")
        try:
            weight = float(parameter.strip().removeprefix("q=")) if parameter else 1.0
        except ValueError:
            continue
        primary = tag.strip().lower().partition("-")[0]
        if primary in ("en", "zh") and 0 < weight <= 1:
            weighted.append((-weight, index, primary))
    return "zh-Hans" if weighted and min(weighted)[2] == "zh" else "en"


class RequestGuardMiddleware:
    """Refuses bodies over the limit of their path (413) and NUL in an address (400), before anything reads them."""

    def __init__(self, app: ASGIApp, *, default_bytes: int, by_prefix: Mapping[str, int]) -> None:
        """`by_prefix`: path prefix -> bytes; the first that matches counts."""
        self._app, self._default, self._by_prefix = app, default_bytes, dict(by_prefix)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if "\0" in scope["path"] or b"%00" in scope.get("query_string", b""):
            problem = ProblemError(400, "request-invalid", _("the address holds a NUL"))
            await problem.response()(scope, receive, send)
            return
        limit = self._limit(scope["path"])
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > limit:
            await _too_large(limit).response()(scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            if message["type"] == "http.request":
                seen += len(message.get("body", b""))
                if seen > limit:
                    raise _too_large(limit)
            return message

        await self._app(scope, counted, send)

    def _limit(self, path: str) -> int:
        return next((size for prefix, size in self._by_prefix.items() if path.startswith(prefix)), self._default)


def _too_large(limit: int) -> ProblemError:
    return ProblemError(
        413,
        "too-large",
        _("the body is larger than the {limit} bytes this address takes").format(limit=limit),
        headers={"Connection": "close"},
    )
