"""Sets and clears the session cookie."""

from __future__ import annotations

from fastapi import Request, Response

from tuneplane_server.features.accounts.deps import cookie_name, services_of


def set_session(request: Request, response: Response, cookie: str) -> None:
    services = services_of(request)
    response.set_cookie(
        cookie_name(request),
        cookie,
        max_age=int(services.accounts.signer.lifetime.total_seconds()),
        httponly=True,
        samesite="lax",
        secure=services.settings.secure_cookies,
        path="/",
    )


def clear_session(request: Request, response: Response) -> None:
    secure = services_of(request).settings.secure_cookies
    response.delete_cookie(cookie_name(request), path="/", httponly=True, samesite="lax", secure=secure)
