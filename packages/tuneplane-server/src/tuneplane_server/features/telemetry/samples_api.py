"""`GET /api/v1/jobs/{id}/samples`: what a model writes during training, to be filtered, searched and sorted."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response

from tuneplane.i18n import _
from tuneplane_server.domain.retention import Kind
from tuneplane_server.domain.series_codec import json_number
from tuneplane_server.features.accounts.deps import Reader, services_of
from tuneplane_server.features.telemetry import shapes
from tuneplane_server.features.telemetry.answers import described, json_answer
from tuneplane_server.features.telemetry.repo.samples import Place, SampleFilter
from tuneplane_server.features.telemetry.sample_reader import Order, SampleItem
from tuneplane_server.web.cursors import decode_cursor, encode_cursor
from tuneplane_server.web.problems import refused
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1/jobs/{job_id}", tags=["telemetry"])

Step = Annotated[int | None, Query(ge=-(2**63), lt=2**63)]
Reward = Annotated[float | None, Query(allow_inf_nan=False)]
BY_REWARD = ("highest", "lowest")


def sample_filter(
    kind: Annotated[str | None, Query(pattern="^(completion|preference|conversation)$")] = None,
    step: Step = None,
    step_min: Step = None,
    step_max: Step = None,
    attempt: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
    rank: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
    min_reward: Reward = None,
    max_reward: Reward = None,
) -> SampleFilter:
    """`step`: one step, instead of the ends of a range."""
    first, last = (step_min, step_max) if step is None else (step, step)
    return SampleFilter(kind, attempt, rank, first, last, min_reward, max_reward)


Filter = Annotated[SampleFilter, Depends(sample_filter)]


@router.get("/samples", responses=described(shapes.SamplePage))
async def samples(
    request: Request,
    job_id: str,
    principal: Reader,
    wanted: Filter,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    order: Order = "oldest",
    grep: Annotated[str, Query(max_length=1000)] = "",
) -> Response:
    """`{items: [{id, attempt, rank, step, time, kind, reward, data}], next_cursor, dropped}`. `order`: oldest or newest first, or
    by reward, highest or lowest first (then only those that have one). `grep`: what one of a sample's texts holds; a search
    may answer an empty page with a cursor to go on from."""
    services = services_of(request)
    row = await services.jobs.get(principal, job_id)
    place = decode_place(cursor, order) if cursor else None
    page = await services.telemetry.samples.page(row.id, wanted, order=order, after=place, limit=limit, text=grep)
    usage = await services.telemetry.usage(row.id)
    following = None if page.place is None else encode_place(page.place, order)
    items = [present(item) for item in page.items]
    removed_at = (await services.retention.removed(row.id)).get(Kind.SAMPLES)
    return json_answer(
        {
            "items": items,
            "next_cursor": following,
            "dropped": usage.sample_dropped,
            "removed_at": None if removed_at is None else removed_at.isoformat(),
        }
    )


def present(item: SampleItem) -> dict[str, Any]:
    """As JSON has it."""
    return asdict(item) | {"reward": None if item.reward is None else json_number(item.reward)}


def encode_place(place: Place, order: Order) -> str:
    """An opaque cursor of that order."""
    if order not in BY_REWARD or place.reward is None:
        return encode_cursor(place.n)
    return encode_cursor(place.n, float(place.reward).hex())


def decode_place(cursor: str, order: Order) -> Place:
    """Raises the problem `request-invalid` for what is no cursor of that order."""
    if order not in BY_REWARD:
        return Place(decode_cursor(cursor, int)[0])
    number, reward = decode_cursor(cursor, int, str)
    try:
        return Place(number, _reward(reward))
    except (ValueError, OverflowError):
        raise refused(
            "request-invalid",
            _("the cursor is not one this console gave"),
            _("start again without a cursor"),
            field="cursor",
        ) from None


def _reward(text: str) -> float:
    number = float.fromhex(text)
    if not isfinite(number) and text not in ("inf", "-inf"):
        raise ValueError("not a number")
    return number
