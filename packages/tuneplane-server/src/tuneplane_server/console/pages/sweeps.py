"""Sweeps: the list, and one with its trials side by side."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from starlette.responses import RedirectResponse, Response

from tuneplane_server.console.pages.reader import Reader, pages_of, services_of
from tuneplane_server.console.views import sweeps as view
from tuneplane_server.features.accounts.deps import client_address
from tuneplane_server.features.jobs.steering import Asked
from tuneplane_server.features.sweeps.presenting import present, present_list
from tuneplane_server.web.cursors import decode_cursor, encode_cursor
from tuneplane_server.web.routing import Router

router = Router(include_in_schema=False, prefix="/sweeps")

PAGE = 50


@router.get("")
async def sweeps_page(request: Request, reader: Reader, cursor: Annotated[str, Query(max_length=200)] = "") -> Response:
    """The page, or for htmx the table alone."""
    services = services_of(request)
    before = decode_cursor(cursor, str)[0] if cursor else None
    rows, after = await services.sweeps.list(reader, before=before, limit=PAGE)
    return pages_of(request).page(
        request,
        "sweeps/_table.html" if "hx-request" in request.headers else "sweeps/list.html",
        reader=reader,
        sweeps=[view.shown(item.model_dump(by_alias=True)) for item in await present_list(services, rows)],
        cursor=cursor,
        next_cursor="" if after is None else encode_cursor(after),
    )


@router.get("/{sweep_id}")
async def sweep_page(request: Request, reader: Reader, sweep_id: str) -> Response:
    """The page, or for htmx the part of it that refreshes itself."""
    services = services_of(request)
    found = await present(services, await services.sweeps.get(reader, sweep_id))
    return pages_of(request).page(
        request,
        "sweeps/_sweep.html" if "hx-request" in request.headers else "sweeps/page.html",
        reader=reader,
        sweep=view.shown(found.model_dump(by_alias=True)),
    )


@router.post("/{sweep_id}/cancel")
async def cancel(request: Request, reader: Reader, sweep_id: str) -> Response:
    await services_of(request).sweeps.cancel(reader, sweep_id, address=client_address(request))
    return _to_sweep(sweep_id)


@router.post("/{sweep_id}/resume")
async def resume(request: Request, reader: Reader, sweep_id: str) -> Response:
    services = services_of(request)
    asked = Asked(reader, None, services.ingest_address, client_address(request))
    await services.sweeps.resume(asked, sweep_id)
    return _to_sweep(sweep_id)


def _to_sweep(sweep_id: str) -> Response:
    return RedirectResponse(f"/sweeps/{sweep_id}", 303)
