"""An error as a page for a person. The API's readers get the same problem as JSON (see `web.problems`)."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import HTMLResponse

from tuneplane_server.console.i18n import N_, _
from tuneplane_server.console.pages.reader import pages_of
from tuneplane_server.features.accounts.deps import optional_principal
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.web.problems import ProblemError

# status -> (heading, icon); anything else is told by its class
_HEADINGS = {
    403: (N_("This is not yours to do"), "ban"),
    404: (N_("There is nothing here"), "search"),
    429: (N_("Too many tries"), "clock"),
}
_OTHER_REFUSAL = (N_("This did not work"), "triangle-alert")
_OUR_FAULT = (N_("The console failed"), "triangle-alert")


async def error_page(request: Request, problem: ProblemError) -> HTMLResponse:
    heading, picture = _HEADINGS.get(problem.status, _OTHER_REFUSAL if problem.status < 500 else _OUR_FAULT)
    return pages_of(request).page(
        request,
        "error.html",
        reader=await _reader(request, problem),
        status=problem.status,
        headers={"Cache-Control": "no-store"} | dict(problem.headers or {}),
        heading=_(heading),
        picture=picture,
        problem=problem,
    )


async def _reader(request: Request, problem: ProblemError) -> Principal | None:
    """Who sees the error. After a failure of our own the database is not asked again: it may be what failed."""
    if problem.status >= 500:
        return None
    try:
        return await optional_principal(request)
    except ProblemError:  # the error is that the reader is refused: then nobody is known to be reading
        return None
