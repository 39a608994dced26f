"""`/ingest/v1/jobs/{job}`: batches and heartbeats of running jobs (contract/ingest.py, docs/…/reference/ingest)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from fastapi import Request, Response

from tuneplane.contract.words import MAX_BATCH_BYTES
from tuneplane.i18n import _
from tuneplane_server.db.availability import unavailable
from tuneplane_server.features.accounts.deps import client_address, services_of
from tuneplane_server.features.ingest.gate import CrowdedError
from tuneplane_server.features.ingest.tokens import Grant
from tuneplane_server.web.problems import ProblemError, refused
from tuneplane_server.web.routing import Router

router = Router(prefix="/ingest/v1/jobs", tags=["ingest"])

BODY_SECONDS = 30.0
HEARTBEAT_BYTES = 16 * 1024


@router.post("/{job_id}/batches")
async def batches(request: Request, job_id: str) -> Response:
    services = services_of(request)
    ingest = services.ingest
    with services.meters.batch() as seen:
        async with _refusals():
            grant = await _grant(request, job_id)
            async with ingest.gate.turn(job_id):
                body = await _body(request, MAX_BATCH_BYTES)
                seen.size = len(body)
                encoding = request.headers.get("content-encoding", "")
                with services.meters.write():
                    written = await ingest.receive(grant, body, encoding, client_address(request))
        seen.accepted, seen.duplicate, seen.points = written.accepted, written.duplicate, written.points
    answer = {"accepted": written.accepted, "duplicate": written.duplicate, "ack": written.ack}
    return _json(answer)


@router.post("/{job_id}/heartbeat")
async def heartbeat(request: Request, job_id: str) -> Response:
    async with _refusals():
        grant = await _grant(request, job_id)
        body = await _body(request, HEARTBEAT_BYTES)
        reply = await services_of(request).ingest.heartbeat(grant, body, client_address(request))
    answer = {"desired": reply.desired}
    return _json(answer if reply.token is None else answer | {"token": reply.token})


@asynccontextmanager
async def _refusals() -> AsyncIterator[None]:
    """What makes the sender keep its batch is 429, 503 or 507 with `Retry-After`, never a 500."""
    try:
        yield
    except ProblemError:
        raise
    except CrowdedError as error:
        code = "too-many-requests" if error.status == 429 else "unavailable"
        raise _later(error.status, code, _("too much is being sent at once"), error.retry_after) from None
    except Exception as error:
        found = unavailable(error)
        if found is None:
            raise
        if found.status == 507:
            text = _("the console's database is full or read-only")
            raise _later(507, "storage-full", text, found.retry_after) from error
        raise _later(503, "unavailable", _("the console's database is busy or away"), found.retry_after) from error


async def _grant(request: Request, job_id: str) -> Grant:
    scheme, _space, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise refused("token-invalid", _("the request has no ingest token"), _("send it as Authorization: Bearer …"))
    return await services_of(request).ingest.authorise(token.strip(), job_id, client_address(request))


async def _body(request: Request, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    text = _("the body is larger than the {limit} bytes this address takes").format(limit=limit)
                    raise ProblemError(413, "too-large", text, headers={"Connection": "close"})
                parts.append(part)
    except TimeoutError:
        text = _("the body did not arrive in time")
        raise ProblemError(408, "request-timeout", text, headers={"Connection": "close"}) from None
    return b"".join(parts)


def _later(status: int, code: str, text: str, seconds: int) -> ProblemError:
    hint = _("keep everything and try again in {seconds} seconds").format(seconds=seconds)
    return ProblemError(status, code, text, hint, headers={"Retry-After": str(seconds)})


def _json(answer: object) -> Response:
    return Response(msgspec.json.encode(answer), media_type="application/json")
