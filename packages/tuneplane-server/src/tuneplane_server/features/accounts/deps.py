"""FastAPI dependencies: who asks, and may they.

Bearer tokens are checked first; a browser's session cookie counts when there is no Authorization header. A request that
changes something with a cookie must come from our own pages: same origin, and the session's CSRF token in the form field
`csrf_token` or the header `X-CSRF-Token`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request

from tuneplane.i18n import _
from tuneplane_server.features.accounts.principal import ADMIN, READ, WRITE, Principal
from tuneplane_server.features.accounts.sessions import COOKIE, SECURE_COOKIE
from tuneplane_server.web.problems import refused

if TYPE_CHECKING:
    from tuneplane_server.services import Services

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CSRF_FIELD, CSRF_HEADER = "csrf_token", "X-CSRF-Token"
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


def services_of(request: Request) -> Services:
    """The services of the app that answers this request."""
    services: Services = request.app.state.services
    return services


def client_address(request: Request) -> str:
    return request.client.host if request.client else ""


def cookie_name(request: Request) -> str:
    return SECURE_COOKIE if services_of(request).settings.secure_cookies else COOKIE


async def optional_principal(request: Request) -> Principal | None:
    """Who asks, or None. Raises 401 for a bearer token that is not valid, 403 for a request another site made."""
    authorization = request.headers.get("authorization")
    if authorization is not None:
        return await _of_bearer(request, authorization)
    cookie = request.cookies.get(cookie_name(request))
    if not cookie:
        return None
    principal = await services_of(request).accounts.principal_of_session(cookie)
    if principal is not None and request.method not in SAFE_METHODS:
        await _check_own_form(request, principal)
    return principal


async def current_principal(
    request: Request, principal: Annotated[Principal | None, Depends(optional_principal)]
) -> Principal:
    """Who asks; raises 401 when nobody is signed in."""
    if principal is None:
        raise refused("not-signed-in", _("you are not signed in"), _("run tp login, or sign in with the browser"))
    return principal


def require_scope(scope: str) -> Callable[..., Awaitable[Principal]]:
    """A dependency: the principal, whose credential must have `scope`."""

    async def check(principal: Annotated[Principal, Depends(current_principal)]) -> Principal:
        if scope not in principal.scopes:
            raise refused(
                "forbidden",
                _("this token may not do that: it lacks the scope {scope}").format(scope=scope),
                _(
                    "log in with tp login, or have an administrator make a token: tuneplane-server token create --user NAME"
                    " --scope {scope}"
                ).format(scope=scope),
            )
        return principal

    return check


async def require_admin(principal: Annotated[Principal, Depends(require_scope(ADMIN))]) -> Principal:
    if not principal.admin:
        raise refused("forbidden", _("only an administrator may do that"))
    return principal


Reader = Annotated[Principal, Depends(require_scope(READ))]
Writer = Annotated[Principal, Depends(require_scope(WRITE))]
Admin = Annotated[Principal, Depends(require_admin)]


def check_same_origin(request: Request) -> None:
    """Raises 403 unless the browser says that the request comes from our own pages (or it is no browser).

    For forms before a session exists (sign-in, set-up); see W3C Fetch Metadata and RFC 6454.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None:
        foreign = site not in ("same-origin", "none")
    else:
        foreign = origin is not None and urlsplit(origin).netloc != request.url.netloc
    if foreign:
        raise refused("forbidden", _("the request came from another site"), _("open the console itself and try again"))


async def _of_bearer(request: Request, authorization: str) -> Principal:
    scheme, _space, secret = authorization.partition(" ")
    accounts = services_of(request).accounts
    if scheme.lower() == "bearer" and secret:
        principal = await accounts.principal_of_token(secret.strip())
        if principal is not None:
            return principal
    await accounts.limits.check("token-guess", client_address(request))
    raise refused(
        "token-invalid", _("the token is not valid: unknown, revoked or expired"), _("run tp login for a new one")
    )


async def _check_own_form(request: Request, principal: Principal) -> None:
    check_same_origin(request)
    token = request.headers.get(CSRF_HEADER)
    if token is None and request.headers.get("content-type", "").startswith(_FORMS):
        value = (await request.form()).get(CSRF_FIELD)
        token = value if isinstance(value, str) else None
    signer = services_of(request).accounts.signer
    if token is None or not signer.csrf_matches(principal.session_id or "", token):
        raise refused("forbidden", _("the form is too old"), _("reload the page and try again"))


def csrf_token(request: Request, principal: Principal) -> str:
    """The token for the forms of a page shown to `principal`."""
    return services_of(request).accounts.signer.csrf_token(principal.session_id or "")
