"""`/api/v1/jobs/{id}/artifacts`: what a run left, and one file of it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Query, Request, Response

from tuneplane.i18n import _
from tuneplane_server.domain.artifact_paths import is_safe
from tuneplane_server.features.accounts.deps import Reader, client_address, services_of
from tuneplane_server.features.artifacts.download import FileResponse
from tuneplane_server.features.artifacts.files import FileGoneError, PathEscapeError, hides_a_trick
from tuneplane_server.features.artifacts.service import Listing
from tuneplane_server.features.audit.service import AuditEntry
from tuneplane_server.web.problems import not_found, refused
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1/jobs/{job_id}/artifacts", tags=["artifacts"])

Attempt = Annotated[int | None, Query(ge=1, le=2**31 - 1)]


@router.get("", responses={200: {"model": Listing}})
async def artifacts(request: Request, job_id: str, principal: Reader) -> Response:
    """`{files: [{attempt, path, size, sha256}], checkpoints: [{attempt, path, step, complete, problem, size}],
    exports: [{attempt, name, path, files, size}], out_dir,
    truncated}`."""
    services = services_of(request)
    row = await services.jobs.get(principal, job_id)
    listing = await services.artifacts.listing(row.id)
    return Response(msgspec.json.encode(listing), media_type="application/json", headers={"Cache-Control": "no-store"})


@router.head("/file", include_in_schema=False)
@router.get("/file", responses={200: {"content": {"application/octet-stream": {}}}})
async def artifact_file(
    request: Request, job_id: str, principal: Reader, path: Annotated[str, Query()], attempt: Attempt = None
) -> Response:
    """One file, whole or a range of bytes. `attempt`: default the newest that has it."""
    services = services_of(request)
    row = await services.jobs.get(principal, job_id)
    try:
        if not is_safe(path):
            raise PathEscapeError(path)
        file = await services.artifacts.open(row.id, attempt, path)
    except (FileGoneError, PathEscapeError) as error:
        if isinstance(error, FileGoneError) and not hides_a_trick(path):
            raise not_found(_("the run has no file {path}").format(path=path[:200])) from None
        data = {"path": path[:400].replace("\0", "\\0"), "user": principal.username}
        await services.audit.record_alone(
            AuditEntry(principal.username, "artifact.refuse", row.id, client_address(request), data)
        )
        raise refused(
            "request-invalid", _("this path is not inside the run's out dir"), field="path", status=400
        ) from None
    return FileResponse(file, path.rsplit("/", 1)[-1], request.headers)
