"""Samples: pages in four orders, filters, search, and what a sample scored."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.tuneplane_server.telemetry.build import JOB, START
from tests.tuneplane_server.telemetry.build import sample as plain_sample
from tuneplane.client import types
from tuneplane_server.features.telemetry import sample_reader
from tuneplane_server.features.telemetry.records import Batch, Sample, SampleRecord
from tuneplane_server.features.telemetry.repo.samples import SampleFilter

REWARDS = [0.5, -1.0, None, 2.0, 0.5, "NaN", "Infinity", 1.0]


def scored(seq, reward, text=""):
    body = {"prompt": "p", "completion": text or f"t{seq}"} | ({} if reward is None else {"reward": reward})
    encoded = msgspec.json.encode(body)
    return SampleRecord(0, seq, [Sample("completion", seq, START + seq, encoded)])


@pytest.fixture
async def rewarded(telemetry):
    await telemetry.store(JOB, 1, Batch(samples=[scored(seq, reward) for seq, reward in enumerate(REWARDS, 1)]))
    return telemetry


async def ids(telemetry, limit=3, **query):
    """Of all pages, read one after the other."""
    filters = {name: query.pop(name) for name in list(query) if name in SampleFilter.__dataclass_fields__}
    found, place = [], None
    while True:
        page = await telemetry.samples.page(JOB, SampleFilter(**filters), after=place, limit=limit, **query)
        assert len(page.items) <= limit
        found += [item.id for item in page.items]
        place = page.place
        if place is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_every_order_gives_every_sample_once_whatever_the_pages(rewarded, limit):
    assert await ids(rewarded, limit) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert await ids(rewarded, limit, order="newest") == [8, 7, 6, 5, 4, 3, 2, 1]
    assert await ids(rewarded, limit, order="highest") == [7, 4, 8, 5, 1, 2]
    assert await ids(rewarded, limit, order="lowest") == [2, 1, 5, 8, 4, 7]


async def test_filters_by_reward_step_kind_rank_and_attempt(rewarded):
    assert await ids(rewarded, reward_min=0.5) == [1, 4, 5, 7, 8]
    assert await ids(rewarded, reward_min=0.5, reward_max=1.0, order="highest") == [8, 5, 1]
    assert await ids(rewarded, step_min=3, step_max=5) == [3, 4, 5]
    await rewarded.store(JOB, 2, Batch(samples=[plain_sample(1, "x", rank=2, kind="preference", step=4)]))
    assert (
        await ids(rewarded, kind="preference") == await ids(rewarded, rank=2) == await ids(rewarded, attempt=2) == [9]
    )


async def test_a_preference_scores_how_far_the_chosen_answer_is_above_the_other(telemetry):
    odd: list[dict[str, Any]] = [
        {"chosen_reward": 2.0, "rejected_reward": 0.5},
        {"chosen_reward": 1.0},
        {"reward": True},
        {"reward": 10**400},
    ]
    odd += [{"reward": {}}, {"reward": "high"}, {"chosen_reward": "Infinity", "rejected_reward": "Infinity"}]
    records = [
        SampleRecord(0, seq, [Sample("preference", seq, START, msgspec.json.encode(data))])
        for seq, data in enumerate(odd, 1)
    ]
    await telemetry.store(JOB, 1, Batch(samples=records))
    page = await telemetry.samples.page(JOB, SampleFilter())
    assert [item.reward for item in page.items] == [1.5, None, None, None, None, None, None]


async def test_a_search_looks_into_every_text_whatever_its_case(telemetry):
    texts = ["The Answer is 4", 'a "quoted" \\boxed{7}', "Straße 你好", "plain", "K elvin: \u212a"]
    records = [scored(seq, 1.0, text) for seq, text in enumerate(texts, 1)]
    chat = {"messages": [{"role": "user", "content": "deep inside"}]}
    records.append(SampleRecord(0, 6, [Sample("conversation", 6, START, msgspec.json.encode(chat))]))
    escaped = b'{"completion": "\\u0061nswer in escapes"}'
    records.append(SampleRecord(0, 7, [Sample("completion", 7, START, escaped)]))
    await telemetry.store(JOB, 1, Batch(samples=records))
    for text, found in (
        ("answer", [1, 7]), ('"quoted"', [2]), ("\\boxed{7}", [2]), ("STRASSE", [3]), ("你好", [3]), ("kelvin", []),
        ("k", [5]), ("deep", [6]), ("completion", []), ("nothing", []),
    ):  # fmt: skip
        assert await ids(telemetry, text=text) == found, text
    assert await ids(telemetry, text="answer", order="newest", limit=1) == [7, 1]


async def test_a_search_that_takes_long_says_where_to_go_on(rewarded, monkeypatch):
    monkeypatch.setattr(sample_reader, "SEARCH_SECONDS", -1.0)
    monkeypatch.setattr(sample_reader, "ROWS_AT_ONCE", 2)
    page = await rewarded.samples.page(JOB, SampleFilter(), text="t7")
    assert page.items == []
    assert page.place is not None
    assert await ids(rewarded, text="t7") == [7]


async def test_over_the_api_cursors_belong_to_their_order(reader):
    await reader.store(Batch(samples=[scored(seq, reward) for seq, reward in enumerate(REWARDS, 1)]))
    first = await reader.json("samples", types.SamplePage, order="highest", limit=2)
    assert [(item["id"], item["reward"]) for item in first["items"]] == [(7, "Infinity"), (4, 2.0)]
    second = await reader.json("samples", types.SamplePage, order="highest", limit=9, cursor=first["next_cursor"])
    assert [item["id"] for item in second["items"]] == [8, 5, 1, 2]
    assert (await reader.json("samples", types.SamplePage, grep="T3"))["items"][0]["id"] == 3
    few = await reader.json("samples", types.SamplePage, min_reward=0.6, max_reward=1.5)
    assert [item["id"] for item in few["items"]] == [8]
    for query in (
        {"order": "newest", "cursor": first["next_cursor"]},
        {"order": "highest", "cursor": "WzEsIm5hbiJd"},
        {"order": "best"},
        {"min_reward": "NaN"},
        {"kind": "image"},
        {"cursor": "nonsense"},
    ):
        answer = await reader.get("samples", **query)
        assert (answer.status_code, answer.json()["code"]) == (422, "request-invalid"), query
