"""Whatever answers at a node's address: it is told apart, in bounded time, and never taken for news of a job."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.services.ports import free_port
from tests.tuneplane_node.daemon.served import TOKEN, ServedNode, make_certificate, server_context
from tuneplane.i18n import using_language
from tuneplane_node.client import NodeClient, NodeUnreachableError
from tuneplane_node.engine import NodeError, RuntimeHandle

HANDLE = RuntimeHandle("docker", "tp-job")
NODE = "TunePlane-Node: 0.1.0"
type Serve = Callable[[bytes], Awaitable[NodeClient]]


def reply(status: str, body: bytes, *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*head, "", ""]).encode() + body


@pytest.fixture
async def answering() -> AsyncIterator[Serve]:
    """A client of a server that answers every request with the same bytes."""
    servers: list[asyncio.Server] = []
    clients: list[NodeClient] = []

    async def serve(content: bytes) -> NodeClient:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                if await reader.read(1) != b"\x16":  # the client tries TLS as well, to tell what this is
                    await reader.readuntil(b"\r\n\r\n")
                writer.write(content)
                await writer.drain()
            except (OSError, asyncio.IncompleteReadError):
                pass  # the client has looked at what it wanted to
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        servers.append(server)
        port = server.sockets[0].getsockname()[1]
        clients.append(NodeClient(f"http://127.0.0.1:{port}", TOKEN, read_seconds=20))
        return clients[-1]

    yield serve
    for client in clients:
        await client.close()
    for server in servers:
        server.close()
        await server.wait_closed()  # a connection that outlives its loop is told of in somebody else's test


async def unreachable(call: Awaitable[Any]) -> NodeUnreachableError:
    with pytest.raises(NodeUnreachableError) as problem:
        await call
    assert problem.value.text()
    assert problem.value.hint()
    return problem.value


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (reply("200 OK", b"<html><title>Router</title></html>", "Content-Type: text/html"), "node-answer"),
        (reply("200 OK", b'{"state": "absent"}', "Content-Type: application/json"), "node-answer"),
        (reply("404 Not Found", b"no such container", "Content-Type: text/plain"), "node-answer"),
        (reply("401 Unauthorized", b"", 'WWW-Authenticate: Basic realm="proxy"'), "node-answer"),
        (reply("302 Found", b"", "Location: http://127.0.0.1:1/"), "node-answer"),
        (reply("502 Bad Gateway", b"<html>nginx</html>"), "node-answer"),
        (reply("200 OK", b"", NODE), "node-answer"),
        (reply("200 OK", b"null", NODE), "node-answer"),
        (reply("200 OK", b"[]", NODE), "node-answer"),
        (reply("200 OK", b'{"state": "gone"}', NODE), "node-answer"),
        (reply("200 OK", b'{"state": "absent"', NODE), "node-answer"),
        (reply("200 OK", b"\xff\xfe\x00", NODE), "node-answer"),
        (reply("200 OK", b"not gzip", NODE, "Content-Encoding: gzip"), "node-answer"),
        (reply("500 Internal Server Error", b'{"status": 500}', NODE), "node-answer"),
        (reply("409 Conflict", b'{"problem": "words"}', NODE), "node-answer"),
        (reply("404 Not Found", b'{"status": 404}', NODE), "node-version"),
        (reply("200 OK", b'{"state": "absent"}', "TunePlane-Node: 7.0.0"), "node-version"),
        (reply("200 OK", b'{"state": "absent"}', "TunePlane-Node: "), "node-version"),
        (reply("401 Unauthorized", b"{}", NODE), "node-token"),
        (b"220 mail ESMTP\r\n\r\n", "node-answer"),
        (b"", "node-unreachable"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nTunePlane-Node: 0.1.0\r\n\r\n{", "node-unreachable"),
    ],
)
async def test_an_odd_answer_is_no_news_of_a_job(answering: Serve, content: bytes, code: str) -> None:
    problem = await unreachable((await answering(content)).observe(HANDLE))
    assert problem.code == code


async def test_a_bomb_is_not_unpacked(answering: Serve) -> None:
    bomb = gzip.compress(b"0" * 40_000_000)
    problem = await unreachable((await answering(reply("200 OK", bomb, NODE, "Content-Encoding: gzip"))).containers())
    assert problem.code == "node-answer"


async def test_a_refusal_of_the_node_is_the_engines_own(answering: Serve) -> None:
    body = b'{"problem": {"code": "image-not-found", "values": {"image": "a/b"}, "detail": "manifest unknown"}}'
    client = await answering(reply("409 Conflict", body, NODE))
    with pytest.raises(NodeError) as refusal:
        await client.observe(HANDLE)
    assert (refusal.value.code, refusal.value.detail) == ("image-not-found", "manifest unknown")
    assert refusal.value.text() == "The image a/b does not exist in its registry."


async def test_a_handle_that_makes_no_sense_is_an_odd_answer(answering: Serve) -> None:
    from tuneplane_node.engine import LABEL_ATTEMPT, LABEL_JOB, LaunchRequest

    request = LaunchRequest(name="tp-job", labels={LABEL_JOB: "j", LABEL_ATTEMPT: "1"}, command=["true"])
    client = await answering(reply("200 OK", b'{"done": true, "handle": "../../x"}', NODE))
    assert (await unreachable(client.launch(request))).code == "node-answer"


async def test_nobody_there_is_unreachable() -> None:
    client = NodeClient(f"http://127.0.0.1:{free_port()}", TOKEN)
    problem = await unreachable(client.hello())
    assert problem.code == "node-unreachable"
    await client.close()


async def test_silence_ends_after_the_time_to_read() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        client = NodeClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", TOKEN, read_seconds=0.2)
        problem = await unreachable(client.hello())
        assert problem.code == "node-unreachable"
        assert "ReadTimeout" in problem.detail
        await client.close()


@pytest.mark.parametrize("address", ["http://", "http://a b", "http://127.0.0.1:99999", "no-url", "http://.invalid."])
async def test_an_address_that_is_none_is_unreachable(address: str) -> None:
    client = NodeClient(address, TOKEN)
    assert (await unreachable(client.hello())).code == "node-unreachable"
    await client.close()


async def test_a_connection_that_was_kept_and_has_gone_is_made_anew(served: ServedNode) -> None:
    """A daemon that was started again in between: the first call after it must not fail."""
    calls = 0

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        await reader.readuntil(b"\r\n\r\n")
        if calls > 1:  # the first connection is closed without a word, as by a daemon that is killed
            writer.write(reply("200 OK", b'{"state": "running"}', NODE))
        writer.close()

    async with await asyncio.start_server(once, "127.0.0.1", 0) as server:
        client = NodeClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", TOKEN)
        assert (await client.observe(HANDLE)).state == "running"
        await client.close()
    assert calls == 2


# --- TLS --------------------------------------------------------------------------------------------------------------


async def test_a_certificate_that_is_given_is_trusted_and_another_is_not(
    make_served: Callable[..., Awaitable[ServedNode]], tmp_path: Path
) -> None:
    cert, key = make_certificate(tmp_path / "tls")
    other, _key = make_certificate(tmp_path / "other")
    served = await make_served(context=server_context(cert, key))
    assert (await served.client(ca_file=cert).hello()).name == "node-1"
    for ca_file in (None, other):
        problem = await unreachable(served.client(ca_file=ca_file).hello())
        assert problem.code == "node-tls"
        assert "not trusted" in problem.text()
        assert "TUNEPLANE_AGENT_CA_FILE" in problem.hint(), "the console's own setting"
        with using_language("zh-Hans"):  # nobody reads where it is found out
            assert "它的证书不可信" in problem.text()
            assert "not trusted" not in problem.text()


async def test_a_certificate_of_another_address_is_not_trusted(
    make_served: Callable[..., Awaitable[ServedNode]], tmp_path: Path
) -> None:
    cert, key = make_certificate(tmp_path / "tls", "10.9.9.9")
    served = await make_served(context=server_context(cert, key))
    problem = await unreachable(served.client(ca_file=cert).hello())
    assert problem.code == "node-tls"


async def test_http_for_https_is_told(make_served: Callable[..., Awaitable[ServedNode]], tmp_path: Path) -> None:
    served = await make_served(context=server_context(*make_certificate(tmp_path / "tls")))
    problem = await unreachable(served.client(f"http://127.0.0.1:{served.port}").hello())
    assert problem.code == "node-tls"
    assert "use https://" in problem.text()


async def test_https_for_http_is_told(served: ServedNode, tmp_path: Path) -> None:
    cert, _key = make_certificate(tmp_path / "tls")
    problem = await unreachable(served.client(f"https://127.0.0.1:{served.port}", ca_file=cert).hello())
    assert problem.code == "node-tls"
    assert "use http://" in problem.text()
    with using_language("zh-Hans"):
        assert "请用 http://" in problem.text()


async def test_an_authority_that_is_no_certificate_is_told(served: ServedNode, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("words")
    for ca_file in (tmp_path / "ca.pem", tmp_path / "missing.pem"):
        problem = await unreachable(served.client(f"https://127.0.0.1:{served.port}", ca_file=ca_file).hello())
        assert problem.code == "node-tls"
        assert str(ca_file) in problem.text()
