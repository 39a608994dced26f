"""The API of telemetry: shapes, who may read, what is refused."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator

import httpx2 as httpx

from tests.tuneplane_server.telemetry.build import START, event, log, metric, sample
from tests.tuneplane_server.telemetry.reading import token_of
from tuneplane.client import types
from tuneplane_server.app import create_app
from tuneplane_server.domain.classify import Exit
from tuneplane_server.features.telemetry.records import Batch

CALLS = ["metrics", "curves?name=a", "logs", "logs/raw", "samples", "stream", "artifacts", "artifacts/file?path=x"]


async def test_only_who_may_see_the_run_reads_it(reader, console):
    eve = await token_of(console, await console.user("eve"))

    async def status(call, token, job=reader.job):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return (await reader.client.get(f"/api/v1/jobs/{job}/{call}", headers=headers)).status_code

    for call in CALLS:
        assert await status(call, None) == 401
        assert await status(call, eve) == 404
        assert await status(call, reader.token, "0000000000000000") == 404
        assert await status(call, reader.token, "..%2f..") == 404


async def test_metrics_and_curves(reader):
    await reader.store(
        Batch(metrics=[metric(1, {"train/loss": [2.0, math.nan, 1.0]}), metric(1, {"x": [1.0]}, rank=1)])
    )
    await reader.store(Batch(metrics=[metric(1, {"train/loss": [0.5]}, first_step=3)]), attempt=2)
    found = await reader.json("metrics", types.Metrics)
    assert found["refused_points"] == 0
    assert found["metrics"]["train/loss"] == {
        "latest": {"step": 3, "value": 0.5, "time": START + 3},
        "min": 0.5,
        "max": 2.0,
        "count": 4,
        "attempts": [1, 2],
    }
    assert list((await reader.json("metrics", types.Metrics, rank=1))["metrics"]) == ["x"]
    curves = await reader.json("curves", types.Curves, name=["train/loss", "missing"])
    first, second = curves["series"]["train/loss"]
    assert first["value"] == [2.0, "NaN", 1.0]
    assert (first["replaced_from"], second["step"]) == (3, [3])
    assert "missing" not in curves["series"]
    only = await reader.json("curves", types.Curves, name="train/loss", attempt=2)
    assert [part["attempt"] for part in only["series"]["train/loss"]] == [2]


async def test_curves_refuse_what_has_no_meaning(reader):
    for query in (
        {},
        {"name": ["a"] * 101},
        {"name": "a", "max_points": 7},
        {"name": "a", "max_points": 10_001},
        {"name": [f"m{n}" for n in range(21)], "max_points": 10_000},
        {"name": "a", "attempt": 0},
        {"name": "a", "rank": -1},
        {"name": "a", "rank": 2**31},
    ):
        answer = await reader.get("curves", **query)
        assert (answer.status_code, answer.json()["code"]) == (422, "request-invalid"), query


async def test_logs_page_tail_search_and_end(reader, console):
    await reader.store(Batch(logs=[log(seq, f"line {seq}\n") for seq in range(1, 8)]))
    first = await reader.json("logs", types.LogPage, limit=3)
    assert [item["text"] for item in first["items"]] == ["line 1", "line 2", "line 3"]
    assert first["items"][0] == {
        "attempt": 1, "rank": 0, "fd": "stdout", "time": START + 1, "text": "line 1", "id": "AQAAAQc", "level": None, "match": True,
    }  # fmt: skip
    linked = await reader.json("logs", types.LogPage, at=first["items"][1]["id"])
    assert linked["items"][0]["text"] == "line 2"
    assert (first["more"], first["end"], first["dropped_bytes"]) == (True, False, 0)
    rest = await reader.json("logs", types.LogPage, cursor=first["next_cursor"])
    assert [item["text"] for item in rest["items"]] == ["line 4", "line 5", "line 6", "line 7"]
    assert (rest["more"], rest["end"]) == (False, False)
    assert (await reader.json("logs", types.LogPage, cursor=rest["next_cursor"]))["items"] == []
    tail = await reader.json("logs", types.LogPage, tail=2)
    assert [item["text"] for item in tail["items"]] == ["line 6", "line 7"]
    assert [i["text"] for i in (await reader.json("logs", types.LogPage, grep="LINE 5"))["items"]] == ["line 5"]
    for since in (str(START + 7), "2023-11-14T22:13:27+00:00"):
        assert [i["text"] for i in (await reader.json("logs", types.LogPage, since=since))["items"]] == ["line 7"]
    await console.write_outcome(reader.job)
    console.scripted.containers[reader.job, 1].exit = Exit(exit_code=0)
    await console.round(3)
    assert (await reader.json("logs", types.LogPage, cursor=rest["next_cursor"]))["end"]


async def test_logs_refuse_what_has_no_meaning(reader):
    for name, value in (
        ("cursor", "nonsense"),
        ("cursor", "x" * 33_000),
        ("since", "yesterday"),
        ("since", "2026-01-01T00:00:00"),
        ("limit", 0),
        ("limit", 5001),
        ("tail", -1),
        ("tail", 20_001),
        ("grep", "x" * 1001),
        ("fold", "perhaps"),
        ("rank", -1),
        ("level", "loud"),
        ("fd", "stdin"),
        ("context", 51),
        ("at", "nonsense"),
    ):
        answer = await reader.get("logs", **{name: value})
        assert (answer.status_code, answer.json()["code"]) == (422, "request-invalid"), (name, value)


async def test_raw_logs_are_the_bytes(reader):
    await reader.store(Batch(logs=[log(1, b"\xff\0a\n"), log(2, b"e\n", fd="stderr"), log(1, b"r1\n", rank=1)]))
    answer = await reader.get("logs/raw")
    assert answer.content == b"\xff\0a\ne\n"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert "attachment" in answer.headers["content-disposition"]
    assert (await reader.get("logs/raw", fd="stderr")).content == b"e\n"
    assert (await reader.get("logs/raw", rank=1)).content == b"r1\n"
    assert (await reader.get("logs/raw", attempt=2)).content == b""
    assert (await reader.get("logs/raw", fd="stdin")).status_code == 422


async def test_samples_page_and_filter(reader):
    for seq in range(1, 6):
        await reader.store(Batch(samples=[sample(seq, f"t{seq}", step=seq % 2)]))
    first = await reader.json("samples", types.SamplePage, limit=2)
    second = await reader.json("samples", types.SamplePage, limit=2, cursor=first["next_cursor"])
    last = await reader.json("samples", types.SamplePage, limit=2, cursor=second["next_cursor"])
    assert last["next_cursor"] is None
    texts = [item["data"]["completion"] for page in (first, second, last) for item in page["items"]]
    assert texts == ["t1", "t2", "t3", "t4", "t5"]
    newest = await reader.json("samples", types.SamplePage, limit=2, order="newest")
    older = await reader.json("samples", types.SamplePage, limit=9, order="newest", cursor=newest["next_cursor"])
    assert [item["id"] for item in newest["items"] + older["items"]] == [5, 4, 3, 2, 1]
    assert [item["id"] for item in (await reader.json("samples", types.SamplePage, step=0))["items"]] == [2, 4]
    assert (await reader.get("samples", kind="image")).status_code == 422
    assert (await reader.get("samples", cursor="nonsense")).status_code == 422


async def test_the_calls_are_in_the_description_of_the_api(reader):
    described = (await reader.client.get("/api/v1/openapi.json")).json()
    for call in ("metrics", "curves", "logs", "samples", "artifacts"):
        answer = described["paths"][f"/api/v1/jobs/{{job_id}}/{call}"]["get"]["responses"]["200"]
        assert "$ref" in answer["content"]["application/json"]["schema"]


async def test_the_listing_of_jobs_shows_the_latest_values(reader):
    await reader.store(Batch(metrics=[metric(1, {"train/loss": [2.0, 1.0]})], events=[event(1, "hyperparams")]))
    headers = {"Authorization": f"Bearer {reader.token}"}
    (item,) = (await reader.client.get("/api/v1/jobs", headers=headers)).json()["items"]
    assert item["latest"]["train/loss"]["value"] == 1.0


async def events_of(lines: AsyncIterator[str], count: int) -> list[dict]:
    found: list[dict] = []
    current: dict = {}
    async for line in lines:
        name, _colon, value = line.partition(": ")
        if line:
            current[name] = json.loads(value) if name == "data" else value
        elif current:
            found.append(current)
            current = {}
            if len(found) == count:
                break
    return found


async def test_the_stream_over_http(console, reader):
    """A real server: the test transport gives an answer only when it is whole."""
    import asyncio
    import socket

    import uvicorn

    await reader.store(Batch(metrics=[metric(1, {"a": [1.0]})], logs=[log(1, "x\n")]))
    app = create_app(console.services.settings, console.services.clock, executor=console.executor, roles=False)
    app.state.services = console.services
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="warning", timeout_graceful_shutdown=1))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/api/v1/jobs/{reader.job}/stream"
        headers = {"Authorization": f"Bearer {reader.token}"}
        async with httpx.AsyncClient(timeout=60) as client:
            async with client.stream("GET", url, headers=headers) as answer:
                assert answer.headers["content-type"].startswith("text/event-stream")
                assert answer.headers["x-accel-buffering"] == "no"
                lines = answer.aiter_lines()
                first = await events_of(lines, 4)
                assert [one["event"] for one in first] == ["hello", "job", "metrics", "logs"]
                assert first[1]["data"]["id"] == reader.job
                await reader.store(Batch(metrics=[metric(2, {"a": [2.0]})]))
                (live,) = await events_of(lines, 1)
            assert (live["event"], live["id"]) == ("metrics", "2")
            assert live["data"]["series"]["a"] == [{"attempt": 1, "step": [2], "time": [START + 2], "value": [2.0]}]
            await reader.store(Batch(samples=[sample(1, "t")], logs=[log(2, "y\n")]))
            async with client.stream("GET", url, headers=headers | {"Last-Event-ID": "1"}) as answer:
                again = await events_of(answer.aiter_lines(), 5)
            assert [one["event"] for one in again] == ["hello", "job", "metrics", "logs", "samples"]
            assert again[2]["data"]["series"]["a"][0]["step"] == [2]
        server.should_exit = True
        await serving
