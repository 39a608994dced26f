"""Sign-in, sign-out, set-up, device codes and access tokens."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Form, Query, Request
from starlette.responses import RedirectResponse, Response

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane_server.console.i18n import N_, _
from tuneplane_server.console.pages.reader import AnyReader, Reader, local_path, pages_of, services_of
from tuneplane_server.features.accounts.cookies import clear_session, set_session
from tuneplane_server.features.accounts.deps import check_same_origin, client_address
from tuneplane_server.features.accounts.passwords import MIN_LENGTH
from tuneplane_server.features.accounts.principal import ADMIN, READ, WRITE
from tuneplane_server.web.problems import ProblemError, from_refusals
from tuneplane_server.web.routing import Router

router = Router(include_in_schema=False)

SETUP_COOKIE = "tuneplane_setup"
SETUP_SECONDS = 15 * 60
TOKEN_LIFETIMES = (7, 30, 90, 365)
SCOPE_WORDS = {READ: N_("read"), WRITE: N_("submit and cancel"), ADMIN: N_("administer")}
NO_STORE = {"Cache-Control": "no-store"}

Text = Annotated[str, Form(max_length=4096)]


@router.get("/signin")
async def sign_in_page(request: Request, reader: AnyReader, to: Annotated[str, Query(alias="next")] = "") -> Response:
    if reader is not None:
        return RedirectResponse(local_path(to or "/jobs"), 303)
    return await _sign_in_page(request, to)


@router.post("/signin")
async def sign_in(
    request: Request, username: Text = "", password: Text = "", to: Annotated[Text, Form(alias="next")] = ""
) -> Response:
    check_same_origin(request)
    try:
        _user, cookie = await services_of(request).accounts.sign_in(username, password, client_address(request))
    except ProblemError as problem:
        return await _sign_in_page(request, to, username, problem)
    response = RedirectResponse(local_path(to or "/jobs"), 303)
    set_session(request, response, cookie)
    return response


async def _sign_in_page(request: Request, to: str, username: str = "", problem: ProblemError | None = None) -> Response:
    limited = problem is not None and problem.status == 429
    return pages_of(request).page(
        request,
        "accounts/signin.html",
        reader=None,
        status=200 if problem is None else 429 if limited else 401,
        headers=NO_STORE | (dict(problem.headers or {}) if problem else {}),
        next=local_path(to or "/jobs"),
        username=username[:200],
        problem=problem,
        limited=limited,
        host=request.url.netloc,
        setup_needed=await services_of(request).accounts.setup_needed(),
    )


@router.post("/signout")
async def sign_out(request: Request, reader: AnyReader) -> Response:
    response = RedirectResponse("/signin", 303)
    if reader is not None:
        clear_session(request, response)
    return response


# --- set-up -----------------------------------------------------------------------------------------------------------


@router.get("/setup")
async def setup_page(request: Request, token: str = "") -> Response:
    """With a token in the address: keep it in a short-lived cookie and come back without it."""
    if token:
        response = RedirectResponse("/setup", 303, headers=NO_STORE)
        response.set_cookie(SETUP_COOKIE, token[:200], **_setup_cookie(request), max_age=SETUP_SECONDS)
        return response
    return await _setup_page(request)


@router.post("/setup")
async def set_up(request: Request, username: Text = "", password: Text = "", again: Text = "") -> Response:
    check_same_origin(request)
    accounts, address = services_of(request).accounts, client_address(request)
    try:
        if password != again:
            raise RefusedError([Refusal("request-invalid", _("the two passwords differ"), field="again")])
        await accounts.set_up(request.cookies.get(SETUP_COOKIE, ""), username, password, address)
        _user, cookie = await accounts.sign_in(username, password, address)
    except RefusedError as error:
        return await _setup_page(request, username, from_refusals(error))
    except ProblemError as problem:
        return await _setup_page(request, username, problem)
    response = RedirectResponse("/jobs", 303)
    response.delete_cookie(SETUP_COOKIE, **_setup_cookie(request))
    set_session(request, response, cookie)
    return response


async def _setup_page(request: Request, username: str = "", problem: ProblemError | None = None) -> Response:
    needed = await services_of(request).accounts.setup_needed()
    return pages_of(request).page(
        request,
        "accounts/setup.html",
        reader=None,
        status=200 if problem is None else problem.status,
        headers=NO_STORE | (dict(problem.headers or {}) if problem else {}),
        setup_needed=needed,
        has_token=needed and SETUP_COOKIE in request.cookies,
        username=username[:63],
        problem=problem,
        password_length=MIN_LENGTH,
    )


def _setup_cookie(request: Request) -> dict[str, Any]:
    secure = services_of(request).settings.secure_cookies
    return {"path": "/setup", "httponly": True, "samesite": "lax", "secure": secure}


# --- device codes -----------------------------------------------------------------------------------------------------


@router.get("/device")
async def device_page(request: Request, reader: Reader, code: Annotated[str, Query(max_length=100)] = "") -> Response:
    """Without a code: ask for it. With one: show what waits with it, and ask for the answer."""
    values: dict[str, Any] = {"decided": None, "pending": None, "problem": None, "code": code}
    status = 200
    if code:
        try:
            values["pending"] = await services_of(request).accounts.pending_device(reader, code)
        except ProblemError as problem:
            values["problem"], status = problem, problem.status
    return pages_of(request).page(
        request, "accounts/device.html", reader=reader, status=status, headers=NO_STORE, **values
    )


@router.post("/device")
async def decide_device(request: Request, reader: Reader, code: Text = "", answer: Text = "") -> Response:
    values: dict[str, Any] = {"decided": None, "pending": None, "problem": None, "code": ""}
    status = 200
    try:
        approved = answer == "approve"
        row = await services_of(request).accounts.decide_device(reader, code, approved=approved)
        values |= {"decided": "approved" if approved else "refused", "client": row.client}
    except ProblemError as problem:
        values["problem"], status = problem, problem.status
    return pages_of(request).page(
        request, "accounts/device.html", reader=reader, status=status, headers=NO_STORE, **values
    )


# --- access tokens ----------------------------------------------------------------------------------------------------


@router.get("/settings/tokens")
async def tokens_page(request: Request, reader: Reader) -> Response:
    return await _tokens_page(request, reader)


@router.post("/settings/tokens")
async def make_token(
    request: Request,
    reader: Reader,
    name: Annotated[str, Form(max_length=100)] = "",
    scopes: Annotated[list[str] | None, Form()] = None,
    expires: Annotated[str, Form(max_length=10)] = "",
) -> Response:
    """The token is part of this one answer and of no other."""
    wanted = [scope for scope in scopes or [] if scope != ADMIN or reader.admin]
    days = int(expires) if expires.isdecimal() and int(expires) in TOKEN_LIFETIMES else None
    try:
        if not name.strip() or not name.isprintable():
            raise ProblemError(422, "request-invalid", _("give the token a name, so that you know it again"))
        issued = await services_of(request).accounts.create_token(
            reader, name.strip(), wanted, days, actor=reader.username
        )
    except ProblemError as problem:
        return await _tokens_page(request, reader, problem=problem)
    return await _tokens_page(request, reader, issued=issued, issued_name=name.strip())


@router.post("/settings/tokens/{token_id}/revoke")
async def revoke_token(request: Request, reader: Reader, token_id: str) -> Response:
    await services_of(request).accounts.revoke_token(reader, token_id)
    return RedirectResponse("/settings/tokens", 303)


async def _tokens_page(request: Request, reader: Reader, **shown: Any) -> Response:
    services = services_of(request)
    problem: ProblemError | None = shown.get("problem")
    return pages_of(request).page(
        request,
        "accounts/tokens.html",
        reader=reader,
        status=200 if problem is None else problem.status,
        headers=NO_STORE,
        tokens=await services.accounts.tokens(reader),
        scope_words={scope: _(word) for scope, word in SCOPE_WORDS.items()},
        lifetimes=TOKEN_LIFETIMES,
        address=services.public_address,
        **({"issued": None, "issued_name": "", "problem": None} | shown),
    )
