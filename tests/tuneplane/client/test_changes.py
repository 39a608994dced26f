"""The event stream only wakes its reader early: with one, without one, and with one that a proxy swallows, nothing is missed."""

from __future__ import annotations

import threading

import pytest

from tests.tuneplane.client.scripted_server import Reply, Request, ScriptedServer, problem
from tuneplane.client import changes as module
from tuneplane.client.changes import Changes
from tuneplane.client.http import Console

RUN = "0" * 16
STREAM = f"/api/v1/jobs/{RUN}/stream"
KIND = {"Content-Type": "text/event-stream"}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.02)
    monkeypatch.setattr(module, "RECONNECT_SECONDS", (0.01,))


def console(server: ScriptedServer) -> Console:
    return Console(server.url, "token")


def heard(changes: Changes, wanted: set[str]) -> set[str]:
    """What was heard until everything wanted was, or enough looks were taken."""
    found: set[str] = set()
    for _look in range(500):
        found |= changes.wait()
        if wanted <= found:
            break
    return found


def test_events_wake_the_reader_by_name(server: ScriptedServer) -> None:
    server.answers[STREAM] = Reply(
        200, b": hello\n\nevent: logs\nid: 1\ndata: {}\n\nevent: job\nid: 2\ndata: {}\n\n", KIND
    )
    with Changes(console(server), RUN) as changes:
        assert heard(changes, {"logs", "job"}) == {"logs", "job"}
    assert server.seen[0].headers["authorization"] == "Bearer token"


def test_after_a_break_it_goes_on_from_the_last_id(server: ScriptedServer) -> None:
    def stream(request: Request) -> Reply:
        last = request.headers.get("last-event-id", "0")
        return Reply(200, f"event: e{last}\nid: {int(last) + 1}\ndata: x\n\n".encode(), KIND)

    server.answers[STREAM] = stream
    with Changes(console(server), RUN) as changes:
        assert {"e0", "e1", "e2"} <= heard(changes, {"e0", "e1", "e2"})


@pytest.mark.parametrize(
    "reply",
    [
        problem(404, "not-found"),
        problem(500, "internal-error"),
        Reply(200, b"<html>", {"Content-Type": "text/html"}),
        Reply(200, b"", KIND),
        Reply(200, b"event: x", KIND, length=1000),
        Reply(200, b"\xff\xff\n\n" * 10, KIND),
        Reply(hang=True),
    ],
)
def test_without_a_usable_stream_the_clock_still_wakes_the_reader(
    server: ScriptedServer, reply: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STREAM_READ_SECONDS", 0.1)
    server.answers[STREAM] = reply
    with Changes(console(server), RUN) as changes:
        assert [changes.wait() for _look in range(5)] == [set()] * 5
        assert not changes.streaming


def test_a_console_that_is_away_and_comes_back_is_heard_again(server: ScriptedServer) -> None:
    server.answers[STREAM] = [
        problem(503, "unavailable"),
        Reply(200, b"event: job\nid: 1\ndata: x\n\n", KIND),
    ]
    with Changes(console(server), RUN) as changes:
        assert heard(changes, {"job"}) == {"job"}


def test_what_piles_up_is_one_look(server: ScriptedServer) -> None:
    read = threading.Event()

    def stream(request: Request) -> Reply:
        if request.headers.get("last-event-id"):
            read.set()  # it asks again: everything that the first stream said has been read
            return Reply(hang=True)
        return Reply(200, b"event: metrics\nid: 1\ndata: x\n\n" * 5000, KIND)

    server.answers[STREAM] = stream
    with Changes(console(server), RUN) as changes:
        assert read.wait(60)
        assert changes.wait() == {"metrics"}
        assert changes.wait() == set()
