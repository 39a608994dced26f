"""Calls of the client: what is sent, what is repeated and what never is, pages, uploads."""

from __future__ import annotations

import io
import json

import pytest

from tests.tuneplane.client.scripted_server import Reply, Request, ScriptedServer, as_json, problem
from tuneplane import i18n
from tuneplane.client.errors import NotFoundError, ProblemError, UnreachableError
from tuneplane.client.http import MAX_TRIES, Console

JOB = {"id": "0" * 16, "phase": "queued", "experiment": "first", "project": "demo"}
DIGEST = "a" * 64


class Naps(list[float]):
    """Records what would have been slept."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def naps() -> Naps:
    return Naps()


@pytest.fixture
def console(server: ScriptedServer, naps: Naps) -> Console:
    return Console(server.url + "/", "secret-token", sleep=naps)


def test_the_token_travels_in_a_header_and_nowhere_else(server: ScriptedServer, console: Console) -> None:
    server.answers["/api/v1/me"] = as_json({"username": "me"})
    with i18n.using_language("zh-Hans"):
        console.me()
    (request,) = server.seen
    assert request.headers["authorization"] == "Bearer secret-token"
    assert request.headers["accept-language"] == "zh-Hans"
    assert request.headers["user-agent"].startswith("tuneplane/")
    assert "secret-token" not in request.path + str(request.query)


def test_without_a_token_no_header_is_sent(server: ScriptedServer) -> None:
    server.answers["/api/v1/server"] = as_json({"name": "tuneplane", "version": "1", "api": "v1"})
    with Console(server.url) as console:
        console.server_info()
    assert "authorization" not in server.seen[0].headers


def test_a_proxy_in_the_environment_is_not_asked_for_this_machine(
    server: ScriptedServer, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    server.answers["/api/v1/me"] = as_json({"username": "me"})
    assert console.me()["username"] == "me"


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_reading_is_repeated_while_the_console_is_busy(
    server: ScriptedServer, console: Console, naps: Naps, status: int
) -> None:
    server.answers["/api/v1/me"] = [problem(status, "busy"), problem(status, "busy"), as_json({"username": "me"})]
    assert console.me()["username"] == "me"
    assert naps == [0.2, 0.4]


def test_the_console_says_how_long_to_wait_within_bounds(server: ScriptedServer, console: Console, naps: Naps) -> None:
    busy = problem(503, "busy")
    server.answers["/api/v1/me"] = [
        Reply(503, busy.body, {**busy.headers, "Retry-After": "3"}),
        Reply(503, busy.body, {**busy.headers, "Retry-After": "999999"}),
        as_json({"username": "me"}),
    ]
    console.me()
    assert naps == [3.0, 10.0]


def test_repeating_ends(server: ScriptedServer, console: Console) -> None:
    server.answers["/api/v1/me"] = problem(503, "unavailable", "later")
    with pytest.raises(UnreachableError, match="later"):
        console.me()
    assert len(server.seen) == MAX_TRIES


def test_a_dropped_connection_is_tried_again_for_what_may_be_repeated(server: ScriptedServer, console: Console) -> None:
    replies = [False, True]

    def drop_first(_request: Request) -> Reply:
        if replies.pop(0):
            return as_json(JOB, 201)
        raise ConnectionAbortedError  # http.server closes the connection without an answer

    server.answers["/api/v1/jobs"] = drop_first
    assert console.submit({"a": 1}, "key-1")["id"] == JOB["id"]
    assert [request.headers["idempotency-key"] for request in server.seen] == ["key-1", "key-1"]


def test_what_must_not_happen_twice_is_sent_once(server: ScriptedServer, console: Console) -> None:
    server.answers["/api/v1/auth/device/token"] = problem(503, "unavailable")
    with pytest.raises(UnreachableError):
        console.collect_device_login("code")
    assert len(server.seen) == 1


def test_a_job_is_sent_with_its_key_as_json(server: ScriptedServer, console: Console) -> None:
    server.answers["/api/v1/jobs"] = as_json(JOB, 201)
    console.submit({"kind": "TrainingJob", "文": "x"}, "key")
    (request,) = server.seen
    assert json.loads(request.body) == {"kind": "TrainingJob", "文": "x"}
    assert request.query == {}


def test_a_number_that_json_lacks_is_never_sent(server: ScriptedServer, console: Console) -> None:
    with pytest.raises(ValueError, match="Out of range"):
        console.submit({"lr": float("nan")}, "key")
    assert server.seen == []


def test_a_dry_run_asks_and_submits_nothing(server: ScriptedServer, console: Console) -> None:
    server.answers["/api/v1/jobs"] = as_json({"admitted": False, "refusals": [{"code": "quota", "message": "m"}]})
    assert console.dry_run({})["admitted"] is False
    assert server.seen[0].query == {"dry_run": ["true"]}
    assert "idempotency-key" not in server.seen[0].headers


def test_lists_are_followed_by_their_cursor(server: ScriptedServer, console: Console) -> None:
    pages = {None: ("a", "c1"), "c1": ("b", "c2"), "c2": ("c", None)}

    def page(request: Request) -> Reply:
        name, following = pages[request.query.get("cursor", [None])[0]]
        return as_json({"items": [{**JOB, "experiment": name}], "next_cursor": following})

    server.answers["/api/v1/jobs"] = page
    assert [job["experiment"] for job in console.iterate_jobs(project="demo", limit=1)] == ["a", "b", "c"]
    assert all(request.query["project"] == ["demo"] for request in server.seen)


def test_a_list_that_goes_in_a_circle_ends(server: ScriptedServer, console: Console) -> None:
    server.answers["/api/v1/jobs"] = as_json({"items": [JOB], "next_cursor": "same"})
    with pytest.raises(UnreachableError, match="circle"):
        list(console.iterate_jobs())


def test_a_page_with_a_wrong_job_in_it_is_refused(server: ScriptedServer, console: Console) -> None:
    server.answers["/api/v1/jobs"] = as_json({"items": [JOB, {"id": 3}]})
    with pytest.raises(UnreachableError, match=r"items\[1\]"):
        list(console.iterate_jobs())


def test_keys_of_a_newer_console_do_no_harm(server: ScriptedServer, console: Console) -> None:
    server.answers[f"/api/v1/jobs/{JOB['id']}"] = as_json({**JOB, "new": {"x": 1}, "reason": None, "latest": {}})
    assert console.job(JOB["id"])["phase"] == "queued"


def test_ids_cannot_leave_their_place_in_the_path(server: ScriptedServer, console: Console) -> None:
    with pytest.raises(NotFoundError):
        console.job("../../x?y#z")
    assert server.seen[0].path == "/api/v1/jobs/..%2F..%2Fx%3Fy%23z"


def test_a_package_is_asked_for_and_sent_whole(server: ScriptedServer, console: Console) -> None:
    data, moved = b"x" * 700_000, []
    stored: dict[str, bytes] = {}

    def packages(request: Request) -> Reply:
        if request.method == "HEAD":
            return Reply(200 if stored else 404)
        stored[DIGEST] = request.body
        return as_json({}, 201)

    server.answers[f"/api/v1/packages/{DIGEST}"] = packages
    assert not console.has_package(DIGEST)
    console.upload_package(DIGEST, io.BytesIO(data), len(data), moved.append)
    assert console.has_package(DIGEST)
    assert stored[DIGEST] == data
    assert sum(moved) == len(data)
    assert server.seen[1].headers["content-length"] == str(len(data))


def test_an_upload_whose_answer_was_lost_is_not_sent_again(server: ScriptedServer, console: Console) -> None:
    stored: list[bytes] = []

    def packages(request: Request) -> Reply:
        if request.method == "HEAD":
            return Reply(200 if stored else 404)
        stored.append(request.body)
        raise ConnectionAbortedError

    server.answers[f"/api/v1/packages/{DIGEST}"] = packages
    console.upload_package(DIGEST, io.BytesIO(b"data"), 4)
    assert stored == [b"data"]


def test_an_upload_that_did_not_arrive_is_sent_once_more_from_its_start(
    server: ScriptedServer, console: Console
) -> None:
    stored: list[bytes] = []

    def packages(request: Request) -> Reply:
        if request.method == "HEAD":
            return Reply(404)
        stored.append(request.body)
        return problem(503, "unavailable") if len(stored) == 1 else as_json({}, 201)

    server.answers[f"/api/v1/packages/{DIGEST}"] = packages
    console.upload_package(DIGEST, io.BytesIO(b"data"), 4)
    assert stored == [b"data", b"data"]


def test_a_package_that_is_not_what_its_name_says_is_an_error(server: ScriptedServer, console: Console) -> None:
    refusal = {"code": "package-mismatch", "message": "other bytes"}
    server.answers[f"/api/v1/packages/{DIGEST}"] = problem(413, "too-large", "too large", refusals=[])
    with pytest.raises(ProblemError, match="too large"):
        console.upload_package(DIGEST, io.BytesIO(b"data"), 4)
    server.answers[f"/api/v1/packages/{DIGEST}"] = problem(422, "package-mismatch", refusals=[refusal])
    with pytest.raises(Exception, match="other bytes"):
        console.upload_package(DIGEST, io.BytesIO(b"data"), 4)
