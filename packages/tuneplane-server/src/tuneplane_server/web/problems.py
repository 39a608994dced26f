"""Errors of the API: RFC 9457 `application/problem+json` with a code, a hint and every refusal."""

from __future__ import annotations

import secrets
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _, current_language
from tuneplane_server.db.availability import unavailable
from tuneplane_server.web.form_words import form_words
from tuneplane_server.web.problem_table import PAGE, PROBLEMS

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
# Codes that are not plain refusals of what the request said (422).
STATUS_OF_CODE = {
    "not-signed-in": 401,
    "token-invalid": 401,
    "forbidden": 403,
    "not-found": 404,
    "conflict": 409,
    "idempotency-conflict": 409,
    "setup-needed": 409,
    "version-missing": 428,
    "too-many-requests": 429,
    "not-yet": 400,
}
_CODE_OF_STATUS = {
    400: "request-invalid",
    401: "not-signed-in",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    409: "conflict",
    413: "too-large",
    415: "media-type",
    422: "request-invalid",
    429: "too-many-requests",
    503: "unavailable",
    507: "storage-full",
}


class ProblemError(HTTPException):
    """One error answer. `code` is stable; `detail` and `hint` are in the reader's language; `more`: members of its own.

    It is an HTTPException so that FastAPI lets it through when it is raised while a body is read.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        hint: str = "",
        *,
        refusals: tuple[Refusal, ...] = (),
        headers: dict[str, str] | None = None,
        more: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(status, detail, headers)
        self.more = more or {}
        self.status, self.code, self.hint = status, code, hint
        self.refusals = refusals

    def to_json(self) -> dict[str, Any]:
        return {
            # RFC 9457: a code that the page does not know leads nowhere rather than astray.
            "type": f"{PAGE}#{self.code}" if self.code in PROBLEMS else "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "hint": self.hint,
            "refusals": [refusal.to_json() for refusal in self.refusals],
            **self.more,
        }

    def response(self) -> JSONResponse:
        headers = {"Cache-Control": "no-store", "Content-Language": current_language()} | dict(self.headers or {})
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers.setdefault("WWW-Authenticate", 'Bearer realm="tuneplane"')
        return JSONResponse(self.to_json(), self.status, headers, media_type=MEDIA_TYPE)


def refused(
    code: str,
    detail: str,
    hint: str = "",
    *,
    field: str = "",
    status: int | None = None,
    more: dict[str, Any] | None = None,
) -> ProblemError:
    """The problem for a single refusal."""
    refusal = Refusal(code, detail, hint, field=field)
    return ProblemError(status or STATUS_OF_CODE.get(code, 422), code, detail, hint, refusals=(refusal,), more=more)


def not_found(what: str, hint: str = "") -> ProblemError:
    """`what` is a translated sentence. Also the answer for what exists but is not the caller's to see."""
    return refused("not-found", what, hint)


def from_refusals(error: RefusedError, status: int | None = None) -> ProblemError:
    first = error.refusals[0]
    return ProblemError(
        status or STATUS_OF_CODE.get(first.code, 422),
        first.code,
        first.message,
        first.hint,
        refusals=tuple(error.refusals),
    )


def install(app: FastAPI) -> None:
    """Every error of `app` becomes a problem (see `answer`); what nobody foresaw is `CrashMiddleware`'s."""

    async def on_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, ProblemError)
        return await answer(request, error)

    async def on_refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RefusedError)
        return await answer(request, from_refusals(error))

    async def on_invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return await answer(request, _invalid(error))

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return await answer(request, _from_http(error))

    app.add_exception_handler(ProblemError, on_problem)
    app.add_exception_handler(RefusedError, on_refused)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http)


async def answer(request: Request, problem: ProblemError) -> Response:
    """The problem as JSON, or as a page for a person when the console set `app.state.error_page(request, problem)`."""
    page = getattr(request.app.state, "error_page", None)
    if page is not None and wants_page(request):
        rendered: Response = await page(request, problem)
        return rendered
    return problem.response()


class CrashMiddleware:
    """Innermost layer: an unforeseen exception is logged with a reference and answered without its text."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:  # the edge: whatever it is, the client gets one clear answer
            problem = _away(error) or _crashed(secrets.token_hex(4))
            log.error("request failed", path=scope["path"], method=scope["method"], said=problem.detail, exc_info=error)
            if started:
                raise  # nothing can be added to half an answer; the server closes the connection
            response = await answer(Request(scope, receive), problem)
            await response(scope, receive, send)


def _away(error: Exception) -> ProblemError | None:
    """503 or 507 for a database or a disk that cannot be used now; None for a mistake of ours."""
    found = unavailable(error)
    if found is None:
        return None
    full = found.status == HTTPStatus.INSUFFICIENT_STORAGE
    detail = _("the console's disk is full or read-only") if full else _("the console's database does not answer now")
    headers = {"Retry-After": str(found.retry_after)}
    code = "storage-full" if full else "unavailable"
    return ProblemError(found.status, code, detail, _("try again in a moment"), headers=headers)


def _crashed(reference: str) -> ProblemError:
    detail = _("the console failed to answer; its log says more under the reference {reference}")
    return ProblemError(500, "internal-error", detail.format(reference=reference))


def wants_page(request: Request) -> bool:
    """Whether the reader is a person with a browser on a page, not a client of the API."""
    path = request.url.path
    if path.startswith(("/api/", "/ingest/")) or path in ("/healthz", "/readyz", "/metrics"):
        return False
    return "text/html" in request.headers.get("accept", "")


def _invalid(error: RequestValidationError) -> ProblemError:
    refusals = tuple(
        Refusal("request-invalid", form_words(item), field=".".join(str(part) for part in item["loc"]))
        for item in error.errors()[:50]
    )
    detail = _("the request is not what this call expects")
    return ProblemError(422, "request-invalid", detail, refusals=refusals)


def _from_http(error: HTTPException) -> ProblemError:
    code = _CODE_OF_STATUS.get(error.status_code, "request-invalid" if error.status_code < 500 else "internal-error")
    detail = {
        404: _("there is nothing at this address"),
        405: _("this address does not know the method of the request"),
        413: _("the request is too large"),
    }.get(error.status_code, str(error.detail))
    return ProblemError(error.status_code, code, detail, headers=dict(error.headers or {}))
