"""What every answer shares: problems, languages, headers, body limits, cursors."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import AsyncIterator

import httpx2
import pytest
from fastapi import FastAPI, Request
from sqlalchemy.exc import OperationalError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import current_language
from tuneplane_server.web import problems
from tuneplane_server.web.cursors import decode_cursor, encode_cursor
from tuneplane_server.web.middleware import (
    LANGUAGE_COOKIE,
    LanguageMiddleware,
    RequestGuardMiddleware,
    SecurityHeadersMiddleware,
    language_of,
)


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    app = FastAPI()
    problems.install(app)

    @app.get("/crash")
    async def crash() -> None:
        raise RuntimeError("the password is hunter2")

    @app.get("/locked")
    async def locked() -> None:
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise OperationalError("select 1", None, error)

    @app.get("/full")
    async def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    @app.get("/refused")
    async def refused() -> None:
        raise RefusedError([Refusal("profile-unknown", "a", "b", field="x"), Refusal("quota", "c")])

    @app.get("/teapot")
    async def teapot() -> None:
        raise HTTPException(418, "short and stout")

    @app.get("/language")
    async def language() -> str:
        return current_language()

    @app.post("/echo")
    async def echo(request: Request) -> int:
        return len(await request.body())

    @app.post("/json")
    async def json(body: dict[str, int]) -> int:
        return len(body)

    app.add_middleware(problems.CrashMiddleware)
    app.add_middleware(RequestGuardMiddleware, default_bytes=100, by_prefix={"/echo": 1000})
    app.add_middleware(LanguageMiddleware)
    app.add_middleware(SecurityHeadersMiddleware, https=True)
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://console") as client:
        yield client


async def test_a_crash_says_nothing_of_its_cause_and_gives_a_reference(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/crash")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal-error")
    assert "hunter2" not in answer.text
    assert answer.headers["content-security-policy"]


async def test_a_database_that_is_busy_and_a_full_disk_ask_to_come_back(client: httpx2.AsyncClient) -> None:
    for path, status, code in (("/locked", 503, "unavailable"), ("/full", 507, "storage-full")):
        answer = await client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert int(answer.headers["retry-after"]) > 0


async def test_every_refusal_is_in_the_answer(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/refused")
    body = answer.json()
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert [item["code"] for item in body["refusals"]] == ["profile-unknown", "quota"]
    assert (body["code"], body["detail"], body["hint"]) == ("profile-unknown", "a", "b")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not-found"),
        ("PUT", "/echo", 405, "method-not-allowed"),
        ("GET", "/teapot", 418, "request-invalid"),
        ("POST", "/json", 422, "request-invalid"),
        ("GET", "/nowhere%00", 400, "request-invalid"),
        ("GET", "/nowhere?x=%00", 400, "request-invalid"),
    ],
)
async def test_every_error_is_a_problem(
    client: httpx2.AsyncClient, method: str, path: str, status: int, code: str
) -> None:
    answer = await client.request(method, path)
    assert (answer.status_code, answer.json()["status"], answer.json()["code"]) == (status, status, code)


async def test_a_body_over_the_limit_of_its_path_is_refused_declared_or_not(client: httpx2.AsyncClient) -> None:
    assert (await client.post("/json", content=b"x" * 101)).status_code == 413
    assert (await client.post("/echo", content=b"x" * 1000)).json() == 1000

    async def endless() -> AsyncIterator[bytes]:
        for _number in range(20):
            yield b"x" * 100

    answer = await client.post("/echo", content=endless())
    assert (answer.status_code, answer.json()["code"]) == (413, "too-large")


async def test_the_headers_of_every_answer_are_strict(client: httpx2.AsyncClient) -> None:
    headers = (await client.get("/language")).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["strict-transport-security"]


@pytest.mark.parametrize(
    ("accepted", "cookie", "language"),
    [
        ("zh-CN,zh;q=0.9,en;q=0.8", "", "zh-Hans"),
        ("en-US,en;q=0.9,zh;q=0.8", "", "en"),
        ("fr", "", "en"),
        ("zh;q=0", "", "en"),
        ("zh;q=much", "", "en"),
        ("", "", "en"),
        ("en", "zh-Hans", "zh-Hans"),
        ("zh", "en", "en"),
        ("zh", "tlh", "zh-Hans"),
    ],
)
def test_the_language_is_the_cookies_else_the_browsers(accepted: str, cookie: str, language: str) -> None:
    headers = {"accept-language": accepted} | ({"cookie": f"{LANGUAGE_COOKIE}={cookie}"} if cookie else {})
    assert language_of(Headers(headers)) == language


async def test_problems_speak_the_readers_language(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/nowhere", headers={"accept-language": "zh-CN"})
    assert answer.headers["content-language"] == "zh-Hans"


def test_a_cursor_comes_back_as_it_was() -> None:
    assert decode_cursor(encode_cursor("abc", 7), str, int) == ("abc", 7)


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "!!!",
        "W10",
        encode_cursor(1),
        encode_cursor("a", "b"),
        encode_cursor("a\0"),
        encode_cursor("\ud800"),
        "A" * 600,
        "é",
    ],
)
def test_a_cursor_that_is_not_ours_is_refused(cursor: str) -> None:
    with pytest.raises(problems.ProblemError) as caught:
        decode_cursor(cursor, str)
    assert caught.value.code == "request-invalid"
