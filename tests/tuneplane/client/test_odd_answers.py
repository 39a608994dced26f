"""Whatever stands at the console's address, each answer becomes one clear error that names the server and says what to do."""

from __future__ import annotations

import pytest

from tests.services.ports import free_port
from tests.tuneplane.client.scripted_server import Reply, ScriptedServer, as_json, problem
from tuneplane.client.errors import ConsoleError, NotFoundError, NotSignedInError, ProblemError, UnreachableError
from tuneplane.client.http import Console
from tuneplane.contract.refusals import RefusedError

PAGE = b"<!DOCTYPE html><html><body>Corporate proxy</body></html>"
HTML = {"Content-Type": "text/html; charset=utf-8"}


def console(server: ScriptedServer) -> Console:
    return Console(server.url, "token", sleep=lambda _seconds: None)


def failure(server: ScriptedServer, reply: Reply) -> ConsoleError:
    server.answers["/api/v1/me"] = reply
    with console(server) as client, pytest.raises(ConsoleError) as caught:
        client.me()
    return caught.value


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(200, PAGE, HTML), "web page"),
        (Reply(403, PAGE, HTML), "HTTP 403 with a web page"),
        (Reply(500, PAGE, HTML), "HTTP 500 with a web page"),
        (Reply(502, PAGE, HTML), "HTTP 502 with a web page"),
        (Reply(200, b""), "empty"),
        (Reply(500, b""), "HTTP 500 with an empty answer"),
        (Reply(200, b"[]"), "expected object, found list"),
        (Reply(200, b"null"), "expected object, found null"),
        (Reply(200, b'"text"'), "expected object, found text"),
        (Reply(200, b"{}"), "username: missing"),
        (Reply(200, b'{"username": 7}'), "username: expected str"),
        (Reply(200, b'{"username": "me", "token": []}'), "token"),
        (Reply(200, b'{"username": "me", '), "cannot be read as JSON"),
        (Reply(200, b"[" * 100_000), "cannot be read as JSON"),
        (Reply(200, b"\xff\xfe\x00"), "something else than JSON"),
        (Reply(404, PAGE, HTML), "HTTP 404 with a web page"),
        (Reply(302, b"", {"Location": "https://sso.example/login"}), "https://sso.example/login"),
        (Reply(200, b'{"username": "me"}', length=1000), "broke"),
        (Reply(500, b'{"error": "x"}'), "HTTP 500"),
    ],
)
def test_an_odd_answer_is_one_clear_error(server: ScriptedServer, reply: Reply, words: str) -> None:
    error = failure(server, reply)
    assert isinstance(error, UnreachableError)
    assert server.url in error.message
    assert words in error.message
    assert error.hint


def test_a_hanging_console_is_given_up(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNEPLANE_HTTP_TIMEOUT", "0.2")
    error = failure(server, Reply(hang=True))
    assert isinstance(error, UnreachableError)
    assert "did not answer in time" in error.message


def test_nothing_listening_is_told_with_the_address() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with Console(url, "token", sleep=lambda _s: None) as client, pytest.raises(UnreachableError) as caught:
        client.me()
    assert url in caught.value.message
    assert "refused" in caught.value.message


@pytest.mark.parametrize(
    "url", ["http://no-such-host.invalid", "http://[::1", "http://127.0.0.1:99999", "http://\udcff"]
)
def test_an_address_that_leads_nowhere_is_told(url: str) -> None:
    with Console(url, "token", sleep=lambda _s: None) as client, pytest.raises(UnreachableError) as caught:
        client.me()
    assert caught.value.message


def test_tls_where_there_is_none_is_told(server: ScriptedServer) -> None:
    url = server.url.replace("http://", "https://")
    with Console(url, "token", sleep=lambda _s: None) as client, pytest.raises(UnreachableError):
        client.me()


def test_an_endless_answer_is_cut_off(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuneplane.client.replies.MAX_REPLY_BYTES", 1000)
    assert "larger" in failure(server, Reply(200, b" " * 5000)).message


def test_an_answer_that_trickles_is_cut_off(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuneplane.client.replies.MAX_REPLY_SECONDS", -1.0)
    assert "did not end" in failure(server, as_json({"username": "me"})).message


def test_a_failing_console_tells_its_own_words(server: ScriptedServer) -> None:
    error = failure(server, problem(500, "internal-error", "its log says more under abc123"))
    assert isinstance(error, UnreachableError)
    assert "abc123" in error.message
    assert error.code == "internal-error"


def test_the_wrong_service_is_known_by_its_name(server: ScriptedServer) -> None:
    server.answers["/api/v1/server"] = as_json({"name": "grafana", "version": "1", "api": "v1"})
    with console(server) as client, pytest.raises(UnreachableError, match="grafana"):
        client.server_info()


def test_unauthorized_is_not_signed_in_with_the_way_back(server: ScriptedServer) -> None:
    for reply in (problem(401, "not-signed-in"), problem(401, "token-invalid"), Reply(401, b"")):
        error = failure(server, reply)
        assert isinstance(error, NotSignedInError)
        assert f"tp login {server.url}" in error.hint


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "not-found", NotFoundError),
        (409, "conflict", ProblemError),
        (429, "too-many-requests", ProblemError),
        (400, "not-yet", ProblemError),
        (400, "token-invalid", ProblemError),
        (507, "storage-full", ProblemError),
    ],
)
def test_a_problem_keeps_its_code_words_and_hint(server: ScriptedServer, status: int, code: str, kind: type) -> None:
    error = failure(server, problem(status, code, "the detail"))
    assert type(error) is kind
    assert (error.code, error.message, error.hint) == (code, "the detail", "do this")


def test_a_refusal_brings_every_reason_with_its_place(server: ScriptedServer) -> None:
    refusals = [
        {"code": "param-unknown", "message": "one", "hint": "h", "field": "spec.config.x"},
        {"code": "profile-unknown", "message": "two"},
        {"code": "code-of-the-future", "message": "three"},
        "nonsense",
        {"code": 7, "message": None, "line": "x"},
    ]
    server.answers["/api/v1/jobs"] = problem(422, "param-unknown", refusals=refusals)
    with console(server) as client, pytest.raises(RefusedError) as caught:
        client.submit({}, "key")
    found = caught.value.refusals
    assert [(item.code, item.message) for item in found[:3]] == [
        ("param-unknown", "one"),
        ("profile-unknown", "two"),
        ("request-invalid", "three (code-of-the-future)"),
    ]
    assert found[0].field == "spec.config.x"
    assert len(found) == 4


@pytest.mark.parametrize("status", [403, 422])
def test_a_refusal_without_reasons_is_still_one(server: ScriptedServer, status: int) -> None:
    server.answers["/api/v1/jobs"] = problem(status, "forbidden", "not yours")
    with console(server) as client, pytest.raises(RefusedError, match="not yours"):
        client.submit({}, "key")


def test_an_unusable_time_limit_is_told(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("soon", "-1", "0", "nan"):
        monkeypatch.setenv("TUNEPLANE_HTTP_TIMEOUT", text)
        assert "TUNEPLANE_HTTP_TIMEOUT" in failure(server, as_json({"username": "me"})).message


def test_a_missing_certificate_authority_is_told(server: ScriptedServer) -> None:
    client = Console("https://127.0.0.1:1", "t", ca_file="/nowhere/ca.pem")
    with pytest.raises(UnreachableError, match=r"ca\.pem"):
        client.me()
