"""`POST /api/v1/jobs/{job}/ingest-token`: lets a script that is no process of the job put curves and samples beside it; and what an
unknown version of ingest is told."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane.i18n import _
from tuneplane_server.domain.phases import LIVE
from tuneplane_server.features.accounts.deps import Writer, client_address, services_of
from tuneplane_server.features.ingest.tokens import LIFETIME, TooManyTokensError
from tuneplane_server.web.problems import ProblemError, not_found, refused
from tuneplane_server.web.routing import Router

router = Router(tags=["ingest"])

HOURS = 24
MOST_HOURS = LIFETIME // timedelta(hours=1)


class OutsideTokenRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    expires_in_hours: Annotated[int, Field(strict=True, ge=1, le=MOST_HOURS)] = HOURS


class OutsideTokenView(BaseModel):
    """`token` is shown once. Records sent with it are of `attempt` and `rank`; it ends with the attempt, or at `expires_at`."""

    url: str
    token: str
    attempt: int
    rank: int
    expires_at: datetime


@router.post("/api/v1/jobs/{job_id}/ingest-token", status_code=201)
async def issue(
    request: Request, job_id: str, principal: Writer, wanted: OutsideTokenRequest | None = None
) -> OutsideTokenView:
    services = services_of(request)
    row = await services.jobs.get(principal, job_id)
    if row.phase not in LIVE:
        raise _not_running(row.id)

    async def still(session: AsyncSession) -> None:
        """The row stays locked until the token is there: who ends the attempt afterwards revokes it too."""
        if not await services.jobs.still_live(session, row.id, row.attempt):
            raise _not_running(row.id)

    lifetime = timedelta(hours=(wanted or OutsideTokenRequest()).expires_in_hours)
    who, address = principal.username, client_address(request)
    try:
        issued = await services.ingest.issue_outside(row.id, row.attempt, lifetime, who, address, still)
    except TooManyTokensError:
        raise refused(
            "conflict",
            _("the run has as many ingest tokens as it may have at once"),
            _("use one of them, or wait until one expires"),
        ) from None
    return OutsideTokenView(
        url=f"{services.ingest_address}/ingest/v1/jobs/{row.id}",
        token=issued.token,
        attempt=issued.attempt,
        rank=issued.rank,
        expires_at=issued.expires_at,
    )


def _not_running(job_id: str) -> ProblemError:
    return refused(
        "conflict",
        _("run {id} is not running: there is no attempt that could take metrics").format(id=job_id),
        _("ask while it runs"),
    )


@router.post("/ingest/{version}/{_rest:path}", include_in_schema=False)
async def unknown_version(version: str) -> None:
    """404 and not 400: a sender of a newer version keeps its records until the console is newer too."""
    raise not_found(
        _("this console speaks version v1 of ingest, not {version}").format(version=version[:40]),
        _("send to /ingest/v1/jobs/<run>/batches, or use a newer console"),
    )
