"""The samples of one job: cards of what the model wrote, by step or by reward, filtered and searched."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any, Literal

from fastapi import Query, Request
from starlette.responses import Response

from tuneplane_server.console.pages.job import job_page
from tuneplane_server.console.pages.reader import Reader, services_of
from tuneplane_server.console.views import samples as view
from tuneplane_server.features.telemetry.repo.samples import SampleFilter
from tuneplane_server.features.telemetry.sample_reader import Order
from tuneplane_server.features.telemetry.samples_api import decode_place, encode_place
from tuneplane_server.web.routing import Router

router = Router(include_in_schema=False, prefix="/jobs/{job_id}")

SAMPLES_AT_ONCE = 24
MAX_WHOLE = 2**31 - 1

Short = Annotated[str, Query(max_length=40)]


@router.get("/samples")
async def samples(
    request: Request,
    reader: Reader,
    job_id: str,
    kind: Short = "",
    step: Short = "",
    step_max: Short = "",
    rank: Short = "",
    min_reward: Short = "",
    max_reward: Short = "",
    order: Order | Literal[""] = "",
    q: Annotated[str, Query(max_length=200)] = "",
    cursor: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    """Newest first unless asked otherwise. `step` alone is one step, with `step_max` the first of a range. A filter that means
    nothing is none."""
    services = services_of(request)
    row = await services.jobs.get(reader, job_id)
    chosen: dict[str, Any] = {
        "kind": kind if kind in view.KINDS else "",
        "step": _whole(step),
        "step_max": _whole(step_max),
        "rank": _whole(rank),
        "min_reward": _number(min_reward),
        "max_reward": _number(max_reward),
        "order": order,
        "q": q.strip(),
    }
    shown: Order = order or "newest"
    usage = await services.telemetry.usage(row.id)  # before the samples: what comes in between is told by the stream
    page = await services.telemetry.samples.page(
        row.id,
        _filter(chosen),
        order=shown,
        after=decode_place(cursor, shown) if cursor else None,
        limit=SAMPLES_AT_ONCE,
        text=chosen["q"],
    )
    return await job_page(
        request,
        reader,
        row,
        "samples",
        samples=[view.present(sample) for sample in page.items],
        samples_cursor=encode_place(page.place, shown) if page.place else "",
        samples_dropped=usage.sample_dropped,
        samples_stored=usage.sample_count,
        chosen=chosen,
        exported=_exported(chosen),
        filtered=any(value not in ("", None) for name, value in chosen.items() if name != "order"),
        by_reward=shown in ("highest", "lowest"),
        sample_kinds=view.KINDS,
        sample_orders=view.ORDERS,
    )


def _filter(chosen: dict[str, Any]) -> SampleFilter:
    last = chosen["step"] if chosen["step_max"] is None else chosen["step_max"]
    return SampleFilter(
        kind=chosen["kind"] or None,
        rank=chosen["rank"],
        step_min=chosen["step"],
        step_max=last,
        reward_min=chosen["min_reward"],
        reward_max=chosen["max_reward"],
    )


def _exported(chosen: dict[str, Any]) -> dict[str, Any]:
    """The filter in the words of the API's export."""
    last = chosen["step"] if chosen["step_max"] is None else chosen["step_max"]
    same = {name: chosen[name] for name in ("kind", "rank", "min_reward", "max_reward")}
    return same | {"step_min": chosen["step"], "step_max": last, "grep": chosen["q"]}


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() and int(text) <= MAX_WHOLE else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None
