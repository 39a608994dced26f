"""Hundreds of machines are read a page at a time, through the API and on the page."""

from __future__ import annotations

import pytest

from tests.tuneplane_server.harness import Api, Harness
from tuneplane_server.console.views import hardware as view
from tuneplane_server.executors.port import NodeInfo
from tuneplane_server.features.accounts.principal import Principal

NAMES = [f"gpu-{number:03d}" for number in range(120)]


@pytest.fixture
def many(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nodes() -> list[NodeInfo]:
        return [NodeInfo(name, 8, 64, ()) for name in reversed(NAMES)]

    monkeypatch.setattr(harness.scripted, "nodes", nodes)


async def test_the_api_gives_pages_by_name(api: Api, ada: Principal, many: None) -> None:
    client = await api.client(ada)
    found: list[str] = []
    cursor = ""
    for _page in range(3):
        answer = (await client.get(f"/api/v1/hardware?limit=50&cursor={cursor}")).json()
        found += [node["name"] for node in answer["nodes"]]
        cursor = answer["next_cursor"]
    assert (found, cursor) == (NAMES, None)
    assert [profile["name"] for profile in answer["profiles"]] == ["cpu"]
    assert answer["profiles"][0]["nodes"] == 120
    assert (await client.get("/api/v1/hardware?cursor=x")).status_code in (400, 422)


@pytest.mark.parametrize(
    ("first", "shown", "before", "after"),
    [
        ("", NAMES[:50], "", "/hardware?from=gpu-050"),
        ("gpu-050", NAMES[50:100], "/hardware?from=gpu-000", "/hardware?from=gpu-100"),
        ("gpu-100", NAMES[70:], "/hardware?from=gpu-020", ""),
        ("zzz", NAMES[70:], "/hardware?from=gpu-020", ""),
    ],
)
def test_a_page_shows_fifty_and_where_the_others_are(first: str, shown: list[str], before: str, after: str) -> None:
    names, others = view.page(set(NAMES), first)
    assert (names, others.before, others.after, others.count) == (shown, before, after, 120)


def test_few_machines_are_one_page() -> None:
    assert view.page({"b", "a"}, "b") == (["a", "b"], view.Others(2, "", ""))
    assert view.page((), "") == ([], view.Others(0, "", ""))


def test_a_machine_is_found_where_it_is_shown() -> None:
    assert view.place_of("gpu-003", NAMES) == "/hardware#node-gpu-003"
    assert view.place_of("gpu-077", NAMES) == "/hardware?from=gpu-077#node-gpu-077"
    assert "gpu-077" in view.page(NAMES, "gpu-077")[0]
