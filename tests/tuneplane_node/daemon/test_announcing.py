"""A node tells its console that it is there, never in a hurry, whatever the console answers; and says once what that is."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.services.ports import free_port
from tests.tuneplane_node.bench import PATIENCE
from tests.tuneplane_node.daemon.served import TOKEN, ServedNode, make_certificate, server_context
from tuneplane.i18n import using_language
from tuneplane_node.daemon import announcing, facts
from tuneplane_node.daemon.announcing import LAST_SECONDS, LONGEST, Announcer
from tuneplane_node.daemon.facts import Facts, Kept
from tuneplane_node.engine import NodeError
from tuneplane_node.wire import ANNOUNCE_PATH, AnnounceAnswer, Announcement, AnswerProblem


@dataclass
class Console:
    """Answers every request with `answer` and keeps what it was asked."""

    answer: bytes = b""
    heads: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    port: int = 0
    server: asyncio.Server | None = None

    async def start(self, context: ssl.SSLContext | None = None) -> Console:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first = await reader.readexactly(1)
            if first != b"\x16":  # of TLS
                head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = next(line for line in head.lower().splitlines() if line.startswith("content-length"))
                self.bodies.append(await reader.readexactly(int(length.partition(":")[2])))
                self.heads.append(head)
            writer.write(self.answer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the node has looked at what it wanted to
        writer.close()

    def says(self, status: str, body: Any, *headers: str) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = [f"HTTP/1.1 {status}", f"Content-Length: {len(content)}", "Connection: close", *headers]
        self.answer = "\r\n".join([*head, "", ""]).encode() + content

    def accepts(self, **fields: Any) -> None:
        self.says("200 OK", AnnounceAnswer("node-1", **fields).to_json())


@pytest.fixture
async def console() -> AsyncIterator[Console]:
    made = await Console().start()
    made.accepts()
    yield made
    assert made.server is not None
    made.server.close()
    await made.server.wait_closed()  # a connection that outlives its loop is told of in somebody else's test


@pytest.fixture
async def announcer(served: ServedNode, console: Console) -> AsyncIterator[Announcer]:
    made = Announcer(served.node, f"http://127.0.0.1:{console.port}", lambda: TOKEN, own=("http", served.port))
    yield made
    await made.close()


async def test_it_says_who_it_is_and_where(announcer: Announcer, console: Console, served: ServedNode) -> None:
    assert await announcer.once() > 0
    (head,), (body,) = console.heads, console.bodies
    assert head.startswith(f"POST {ANNOUNCE_PATH} HTTP/1.1\r\n")
    assert f"Bearer {TOKEN}" in head
    said = Announcement.from_json(json.loads(body))
    assert said.hello.node_id == served.node.node_id
    assert said.hello.storage_root == str(served.storage_root)
    assert said.address == f"http://127.0.0.1:{served.port}"
    assert said.inventory is not None
    assert said.inventory.cpus > 0
    assert [problem.code for problem in said.findings] == ["process-isolates-nothing"]
    assert TOKEN not in body.decode()


async def test_an_address_that_was_set_is_the_one_that_is_told(served: ServedNode, console: Console) -> None:
    announcer = Announcer(
        served.node, f"http://127.0.0.1:{console.port}", lambda: TOKEN, address="https://gpu-1.example:443"
    )
    await announcer.once()
    assert json.loads(console.bodies[0])["address"] == "https://gpu-1.example:443"
    await announcer.close()


@pytest.mark.parametrize(
    ("wanted", "least", "most"),
    [(15.0, 13.5, 16.5), (0.0, 0.9, 1.1), (-5.0, 0.9, 1.1), (1e9, 0.9 * LONGEST, 1.1 * LONGEST)],
)
async def test_the_console_says_when_it_wants_to_be_told_again_within_bounds(
    announcer: Announcer, console: Console, wanted: float, least: float, most: float
) -> None:
    console.accepts(every_seconds=wanted)
    waits = [await announcer.once() for _ in range(5)]
    assert all(least <= wait <= most for wait in waits)
    assert len(set(waits)) > 1, "nodes that began together do not stay together"


@pytest.mark.parametrize(
    ("status", "body", "headers", "code"),
    [
        ("200 OK", b"<html>router</html>", (), "console-answer"),
        ("200 OK", b"", (), "console-answer"),
        ("200 OK", b"[1]", (), "console-answer"),
        ("200 OK", {"node": 5}, (), "console-answer"),
        ("200 OK", b"x" * 3_000_000, (), "console-answer"),
        ("302 Found", b"", ("Location: http://127.0.0.1:1/",), "console-answer"),
        ("404 Not Found", b"<html>nginx</html>", (), "console-answer"),
        ("500 Oops", b"null", (), "console-answer"),
        ("401 Unauthorized", {"code": "token-invalid", "title": "Not this token."}, (), "token-invalid"),
        ("409 Conflict", {"code": "executor-local", "detail": "Not an agent."}, (), "executor-local"),
    ],
)
async def test_an_odd_answer_is_tried_again_later(
    announcer: Announcer,
    console: Console,
    caplog: pytest.LogCaptureFixture,
    status: str,
    body: Any,
    headers: tuple[str, ...],
    code: str,
) -> None:
    console.says(status, body, *headers)
    with caplog.at_level(logging.INFO, "tuneplane_node"):
        assert -1.0 <= await announcer.once() <= -0.5
        await announcer.once(1)
    (line,) = [record.getMessage() for record in caplog.records]
    assert f"[{code}]" in line
    assert TOKEN not in line


async def test_a_console_that_is_busy_says_how_long(announcer: Announcer, console: Console) -> None:
    console.says("503 Busy", {"code": "busy", "title": "Later."}, "Retry-After: 40")
    assert await announcer.once() == -40
    console.says("503 Busy", {"code": "busy", "title": "Later."}, "Retry-After: 99999999")
    assert await announcer.once() == -LONGEST


async def test_a_console_that_is_away_is_asked_ever_more_rarely_and_never_without_a_pause(served: ServedNode) -> None:
    waits: list[float] = []

    async def slept(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 12:
            raise asyncio.CancelledError

    announcer = Announcer(served.node, f"http://127.0.0.1:{free_port()}", lambda: TOKEN, sleep=slept)
    with pytest.raises(asyncio.CancelledError):
        await announcer.run()
    assert min(waits) >= 0.5
    assert max(waits) <= LAST_SECONDS
    for number, wait in enumerate(waits):
        longest = min(LAST_SECONDS, 2.0**number)
        assert longest / 2 <= wait <= longest


async def test_after_an_answer_it_begins_anew(served: ServedNode, console: Console) -> None:
    waits: list[float] = []

    async def slept(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            console.accepts(every_seconds=10)
        elif len(waits) == 4:
            console.says("500 Oops", b"")
        elif len(waits) == 5:
            raise asyncio.CancelledError

    console.says("500 Oops", b"")
    announcer = Announcer(served.node, f"http://127.0.0.1:{console.port}", lambda: TOKEN, sleep=slept)
    with pytest.raises(asyncio.CancelledError):
        await announcer.run()
    assert waits[2] >= 2.0
    assert 9.0 <= waits[3] <= 11.0
    assert waits[4] <= 1.0


async def test_silence_of_the_console_ends_a_turn(
    served: ServedNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    monkeypatch.setattr(announcing, "TURN_SECONDS", 0.2)
    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        announcer = Announcer(served.node, url, lambda: TOKEN)
        assert await announcer.once() < 0
        await announcer.close()
    assert "console-unreachable" in caplog.text


async def test_what_the_console_thinks_is_in_the_log_once_when_it_changes(
    announcer: Announcer, console: Console, caplog: pytest.LogCaptureFixture
) -> None:
    taken = AnswerProblem("node-name-taken", "Another machine has this name.", "Give it another one.")
    with caplog.at_level(logging.INFO, "tuneplane_node"):
        for fields in ({"state": "refused", "problem": taken}, {"state": "ready"}, {"state": "cordoned"}):
            console.accepts(**fields)
            await announcer.once()
            await announcer.once()
        console.says("500 Oops", b"")
        await announcer.once()
        await announcer.once()
        console.accepts(state="cordoned")
        await announcer.once()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 5
    assert "node-name-taken" in lines[0]
    assert "Give it another one." in lines[0]
    assert "does not take this node (node-1)" in lines[0]
    assert lines[1].endswith("knows this node (node-1) and has nothing against it.")
    assert lines[4].endswith("has this node (node-1) cordoned: nothing new begins here, what runs goes on.")


async def test_a_node_that_the_console_cannot_call_back_is_not_told_that_it_is_ready(
    announcer: Announcer, console: Console, caplog: pytest.LogCaptureFixture
) -> None:
    console.accepts(state="ready", problem=AnswerProblem("node-unreachable", "无法连接。", "开放端口。"))
    with caplog.at_level(logging.INFO, "tuneplane_node"), using_language("zh-Hans"):
        await announcer.once()
    (line,) = [record.getMessage() for record in caplog.records]
    assert "node-unreachable" in line
    assert "暂时不会" in line
    assert "ready" not in line


async def test_an_answer_is_handed_on(served: ServedNode, console: Console) -> None:
    heard: list[AnnounceAnswer] = []
    url = f"http://127.0.0.1:{console.port}"
    announcer = Announcer(served.node, url, lambda: TOKEN, answered=heard.append)
    console.accepts(pinned_images=("a", "b"))
    await announcer.once()
    console.says("500 Oops", b"")
    await announcer.once()
    assert [answer.pinned_images for answer in heard] == [("a", "b")]
    await announcer.close()


@pytest.mark.parametrize("speaks_tls", [True, False])
async def test_http_for_https_and_the_reverse_are_told(
    served: ServedNode, tmp_path: Path, caplog: pytest.LogCaptureFixture, speaks_tls: bool
) -> None:
    cert, key = make_certificate(tmp_path / "tls")
    console = await Console().start(server_context(cert, key) if speaks_tls else None)
    console.accepts()
    right, wrong = ("https", "http") if speaks_tls else ("http", "https")
    announcer = Announcer(served.node, f"{wrong}://127.0.0.1:{console.port}", lambda: TOKEN, ca_file=cert)
    assert await announcer.once() < 0
    assert "[console-tls]" in caplog.text
    assert f"use {right}://" in caplog.text
    await announcer.close()
    announcer = Announcer(served.node, f"{right}://127.0.0.1:{console.port}", lambda: TOKEN, ca_file=cert)
    assert await announcer.once() > 0
    await announcer.close()
    assert console.server is not None
    console.server.close()


async def test_a_certificate_of_an_unknown_authority_is_not_trusted(
    served: ServedNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    console = await Console().start(server_context(*make_certificate(tmp_path / "tls")))
    console.accepts()
    announcer = Announcer(served.node, f"https://127.0.0.1:{console.port}", lambda: TOKEN)
    assert await announcer.once() < 0
    assert "not trusted" in caplog.text
    assert console.bodies == []
    await announcer.close()
    assert console.server is not None
    console.server.close()


# --- what an announcement says ----------------------------------------------------------------------------------------


async def test_a_look_that_hangs_silences_nobody(
    announcer: Announcer, console: Console, served: ServedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As nvidia-smi does when the driver has gone."""
    never = asyncio.Event()
    monkeypatch.setattr(served.node.engine, "inventory", never.wait)
    monkeypatch.setattr(facts, "FIRST_SECONDS", 0.01)
    announcer._facts = Facts(served.node)
    assert await announcer.once() > 0
    assert json.loads(console.bodies[0])["inventory"] is None


async def test_what_was_known_last_stands_while_it_cannot_be_asked() -> None:
    answers: list[Callable[[], int]] = [lambda: 7, lambda: fail(), lambda: 9]

    def fail() -> int:
        raise NodeError("engine-unreachable", runtime="docker", address="unix:///x")

    async def look() -> int:
        return answers.pop(0)()

    kept = Kept(look, 0.0)
    assert await kept.get() == 7
    seen = []
    async with asyncio.timeout(PATIENCE):
        while not seen or seen[-1] != 9:
            seen.append(await kept.get())
            await asyncio.sleep(0)
    assert set(seen) == {7, 9}
    await kept.close()


async def test_it_does_not_look_again_before_it_is_time() -> None:
    looks = 0

    async def look() -> int:
        nonlocal looks
        looks += 1
        return looks

    kept = Kept(look, 3600.0)
    assert [await kept.get() for _ in range(5)] == [1] * 5
    await kept.close()
