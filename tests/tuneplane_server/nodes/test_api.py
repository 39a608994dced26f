"""The HTTP side of nodes: one token for the announcement, administrators for the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from tests.tuneplane_server.harness import Api, Harness, gpu_pool, jobspec
from tests.tuneplane_server.nodes.build import TOKEN, announcement, ready
from tests.tuneplane_server.web.test_health import samples
from tuneplane_node.wire import StrangerSeen
from tuneplane_server.features.accounts.principal import Principal

ANNOUNCE = "/api/v1/nodes/announce"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
async def root(api: Api, harness: Harness) -> AsyncIterator[httpx2.AsyncClient]:
    async with await api.client(await harness.user("root", admin=True)) as client:
        yield client


async def test_a_node_announces_itself_and_an_administrator_looks_after_it(
    api: Api, harness: Harness, ada: Principal, root: httpx2.AsyncClient
) -> None:
    async with api.anonymous(**BEARER) as node:
        answer = await node.post(ANNOUNCE, json=announcement("node").to_json())
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "node": "node",
        "state": "ready",
        "problem": None,
        "every_seconds": 10.0,
        "pinned_images": [],
    }
    await ready(harness.services.nodes, "node")
    job_id = await harness.running_job(ada, jobspec(resources=gpu_pool(1)))
    (item,) = (await root.get("/api/v1/nodes")).json()["items"]
    assert (item["health"], item["placeable"], item["memory_gb"]) == ("ready", True, 1024.0)
    assert [card["job_id"] for card in item["cards"]] == [job_id, None]
    assert [(run["job_id"], run["gpus"]) for run in item["runs"]] == [(job_id, [0])]
    for verb, state in (("cordon", "cordoned"), ("drain", "draining"), ("uncordon", "ready")):
        changed = await root.post(f"/api/v1/nodes/node/{verb}")
        assert (changed.status_code, changed.json()["state"]) == (200, state)
    busy = await root.delete("/api/v1/nodes/node")
    assert (busy.status_code, busy.json()["code"], busy.json()["runs"]) == (409, "conflict", [job_id])
    gone = await root.delete("/api/v1/nodes/node?force=true")
    assert (gone.status_code, gone.json()["state"], len(gone.json()["fences"])) == (200, "removed", 1)
    shown = await root.get("/api/v1/nodes/node")
    assert shown.json()["state"] == "removed"
    assert (await root.get("/api/v1/nodes/nobody")).status_code == 404


async def test_an_administrator_ends_what_was_left_from_before_a_state_was_lost(
    api: Api, harness: Harness, ada: Principal, root: httpx2.AsyncClient
) -> None:
    await ready(harness.services.nodes, "node")
    live = await harness.running_job(ada, jobspec(resources=gpu_pool(1)))
    left = tuple(StrangerSeen(f"docker/tp-{job}-1-0", job, 1, "id-before", gpus=None) for job in (live, "b" * 16))
    await harness.services.nodes.announce(replace(announcement("node"), strangers=left), "10.0.0.1")
    shown = (await root.get("/api/v1/nodes/node")).json()
    expected = {"attempt": 1, "node_id": "id-before", "running": True, "gpus": None}
    assert shown["left_jobs"] == [{"job_id": live} | expected, {"job_id": "b" * 16} | expected]
    end = "/api/v1/nodes/node/left-jobs/{}/end?attempt={}"
    busy = await root.post(end.format(live, 1))
    assert (busy.status_code, busy.json()["code"]) == (409, "conflict")
    assert (await root.post(end.format("b" * 16, 2))).status_code == 404
    assert (await root.post(end.format("c" * 16, 1))).status_code == 404
    done = await root.post(end.format("b" * 16, 1))
    assert (done.status_code, done.json()["placeable"]) == (200, True)
    (fence,) = await harness.services.nodes.fences()
    assert (fence.job_id, fence.attempt, fence.node_id) == ("b" * 16, 1, "id-before")
    assert "node.end-left" in [row.action for row in await harness.services.audit.newest(target="node")]
    async with await api.client(ada) as client:
        assert (await client.post(end.format("b" * 16, 1))).status_code == 403


async def test_only_the_agent_token_announces_and_only_administrators_look(api: Api, harness: Harness) -> None:
    body = announcement().to_json()
    ada, boss = await harness.user("ada"), await harness.user("boss", admin=True)
    async with await api.client(boss) as client:
        assert (await client.post(ANNOUNCE, json=body)).status_code == 401
    for given in ("", "Bearer wrong", f"Basic {TOKEN}", TOKEN):
        headers = {"Authorization": given} if given else {}
        async with api.anonymous(**headers) as client:
            answer = await client.post(ANNOUNCE, json=body)
            assert (answer.status_code, answer.json()["code"]) == (401, "token-invalid")
            assert TOKEN not in answer.text
    async with api.anonymous(**BEARER) as client:
        assert (await client.get("/api/v1/nodes")).status_code == 401
    async with await api.client(ada) as client:
        for method, path in (
            ("GET", "/api/v1/nodes"),
            ("GET", "/api/v1/nodes/gpu-1"),
            ("POST", "/api/v1/nodes/gpu-1/cordon"),
            ("POST", "/api/v1/nodes/gpu-1/drain"),
            ("POST", "/api/v1/nodes/gpu-1/uncordon"),
            ("DELETE", "/api/v1/nodes/gpu-1"),
        ):
            assert (await client.request(method, path)).status_code == 403, path
    assert await harness.services.nodes.list() == []


async def test_wrong_tokens_are_held_back_and_audited_with_a_bound(api: Api, harness: Harness) -> None:
    async with api.anonymous(Authorization="Bearer guess") as client:
        answers = [(await client.post(ANNOUNCE, json={})).status_code for _try in range(35)]
    assert answers == [401] * 30 + [429] * 5
    wrong = [row for row in await harness.services.audit.newest() if row.action == "node.wrong-token"]
    assert len(wrong) == 5
    assert all("guess" not in str(row.data) for row in wrong)
    async with api.anonymous(**BEARER) as client:  # who has the token is not held back by who has not
        assert (await client.post(ANNOUNCE, json=announcement().to_json())).status_code == 200


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b"\xff", b'{"hello": 7}', b'{"hello": {"node_id": "a"}}', b"[" * 100_000]
)
async def test_a_broken_announcement_is_refused(site: Api, body: bytes) -> None:
    site.harness.services.__dict__["agent_token"] = lambda: TOKEN
    async with site.anonymous(**BEARER) as client:
        answer = await client.post(ANNOUNCE, content=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "request-invalid")


async def test_a_console_without_nodes_takes_no_announcement(site: Api) -> None:
    async with site.anonymous(**BEARER) as client:
        answer = await client.post(ANNOUNCE, json=announcement().to_json())
    assert answer.status_code == 401
    assert "TUNEPLANE_EXECUTOR=agent" in answer.json()["hint"]


async def test_fields_of_a_newer_node_are_ignored(api: Api) -> None:
    body: dict[str, Any] = announcement().to_json() | {"of_a_later_version": {"x": 1}}
    body["hello"] |= {"colour": "blue"}
    async with api.anonymous(**BEARER) as client:
        assert (await client.post(ANNOUNCE, json=body)).json()["state"] == "ready"


async def test_the_metrics_count_nodes_by_health_and_by_nothing_else(api: Api, harness: Harness) -> None:
    await ready(harness.services.nodes)
    await harness.services.nodes.announce(announcement("gpu-2"), "10.0.0.2")
    seen = await samples(api)
    counts = {key[1]: value for key, value in seen.items() if key[0] == "tuneplane_nodes"}
    assert counts == {"ready": 1, "unproved": 1, "unreachable": 0, "lost": 0, "refused": 0}
