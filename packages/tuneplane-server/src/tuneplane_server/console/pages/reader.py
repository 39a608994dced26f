"""Who reads a page, and the way to the sign-in page for those who may not yet."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote, urlsplit

from fastapi import Depends, Request
from starlette.responses import RedirectResponse, Response

from tuneplane_server.console.templating import Pages
from tuneplane_server.features.accounts.deps import optional_principal
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.services import Services


class SignInNeededError(Exception):
    """Raised by `signed_in`; answered with a redirect to the sign-in page that leads back."""


def pages_of(request: Request) -> Pages:
    pages: Pages = request.app.state.pages
    return pages


def services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def signed_in(request: Request, reader: Annotated[Principal | None, Depends(optional_principal)]) -> Principal:
    """The reader of a page that needs one. Every such page says when maintenance is on, and how much is unread."""
    if reader is None:
        raise SignInNeededError
    request.state.drain = await services_of(request).governance.drain()
    request.state.unread = await services_of(request).alerts.unread(reader)
    return reader


Reader = Annotated[Principal, Depends(signed_in)]
AnyReader = Annotated[Principal | None, Depends(optional_principal)]


async def to_sign_in(request: Request, _error: Exception) -> Response:
    """To the sign-in page; htmx follows the header by loading the whole page instead of a part of it."""
    part = "hx-request" in request.headers
    seen = urlsplit(request.headers.get("hx-current-url", "")) if part else request.url
    here = local_path(seen.path + (f"?{seen.query}" if seen.query else ""))
    target = "/signin" if here == "/" or request.method != "GET" else f"/signin?next={quote(here, safe='')}"
    if part:
        return Response(status_code=204, headers={"HX-Redirect": target})
    return RedirectResponse(target, 303)


def local_path(wanted: str) -> str:
    """`wanted` when it is a path of this console, else the jobs: nobody is sent to another site after signing in."""
    parts = urlsplit(wanted)
    if parts.scheme or parts.netloc or not wanted.startswith("/") or wanted.startswith(("//", "/\\")):
        return "/jobs"
    if any(ord(character) < 32 or character == "\\" for character in wanted):
        return "/jobs"
    return wanted
