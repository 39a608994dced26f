"""Only who has the token is answered; who has not is told nothing, slowed down, and written down."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import httpx2
import pytest

from tests.tuneplane_node.daemon.served import TOKEN, ServedNode
from tuneplane_node.client import NodeUnreachableError
from tuneplane_node.daemon.auth import MOST_ADDRESSES, WINDOW_SECONDS, WRONG_TRIES, WrongTokens
from tuneplane_node.wire import VERSION_HEADER

WRONG = "0123456789abcdef-wrong"


@pytest.fixture
async def anybody(served: ServedNode) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=served.address, timeout=60) as client:
        yield client


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        f"Bearer {WRONG}",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN.upper()}",
        f"Bearer {TOKEN} {TOKEN}",
        "Bearer \xff\xfe",
    ],
)
async def test_without_the_right_token_everything_is_401(anybody: httpx2.AsyncClient, header: str | None) -> None:
    headers = [] if header is None else [(b"Authorization", header.encode("latin-1"))]
    for method, path in (("GET", "/node/v1/hello"), ("POST", "/node/v1/launch"), ("GET", "/"), ("GET", "/no/such")):
        answer = await anybody.request(method, path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["problem"]["code"] == "token-wrong"


async def test_with_the_right_token_it_answers(anybody: httpx2.AsyncClient) -> None:
    for scheme in ("Bearer", "bearer"):
        answer = await anybody.get("/node/v1/hello", headers={"Authorization": f"{scheme} {TOKEN}"})
        assert answer.status_code == 200
        assert answer.headers[VERSION_HEADER]
        assert answer.headers["cache-control"] == "no-store"


async def test_who_keeps_trying_is_not_even_compared_for_a_while(anybody: httpx2.AsyncClient) -> None:
    for _ in range(WRONG_TRIES):
        assert (await anybody.get("/node/v1/hello", headers={"Authorization": f"Bearer {WRONG}"})).status_code == 401
    for token in (WRONG, TOKEN):
        answer = await anybody.get("/node/v1/hello", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 429
        assert 0 < int(answer.headers["retry-after"]) <= WINDOW_SECONDS + 1


async def test_wrong_tokens_are_written_down_and_no_token_is(
    served: ServedNode, anybody: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        await anybody.post("/node/v1/launch?a=1", headers={"Authorization": f"Bearer {WRONG}"})
        await served.client().hello()
    (line,) = [record for record in caplog.records if record.name == "tuneplane_node.audit"]
    assert "127.0.0.1" in line.getMessage()
    assert "POST '/node/v1/launch'" in line.getMessage()
    assert WRONG not in caplog.text
    assert TOKEN not in caplog.text


async def test_a_client_with_a_wrong_token_knows_nothing_of_the_node(served: ServedNode) -> None:
    with pytest.raises(NodeUnreachableError) as problem:
        await served.client(token=WRONG).containers()
    assert problem.value.code == "node-token"
    assert served.address in problem.value.text()
    assert WRONG not in problem.value.text() + problem.value.hint() + str(problem.value)


async def test_a_client_that_was_slowed_down_says_so(served: ServedNode) -> None:
    client = served.client(token=WRONG)
    codes = set()
    for _ in range(WRONG_TRIES + 1):
        with pytest.raises(NodeUnreachableError) as problem:
            await client.hello()
        codes.add((problem.value.code, problem.value.detail))
    assert codes == {("node-token", ""), ("node-token", "too many wrong tokens from here")}


def test_an_address_may_try_again_after_its_window() -> None:
    now = [100.0]
    wrong = WrongTokens(tries=3, clock=lambda: now[0])
    assert [wrong.note("a") for _ in range(3)] == [1, 2, 3]
    assert wrong.blocked_for("a") == WINDOW_SECONDS
    assert wrong.blocked_for("b") == 0
    now[0] += WINDOW_SECONDS
    assert wrong.blocked_for("a") == 0
    assert wrong.note("a") == 1


def test_many_addresses_are_forgotten_oldest_first() -> None:
    wrong = WrongTokens(tries=1, clock=lambda: 0.0)
    for number in range(MOST_ADDRESSES + 1):
        wrong.note(f"address-{number}")
    assert wrong.blocked_for("address-0") == 0
    assert wrong.blocked_for(f"address-{MOST_ADDRESSES}") > 0
    assert len(wrong._seen) == MOST_ADDRESSES
