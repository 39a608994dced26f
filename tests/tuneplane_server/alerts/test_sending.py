"""The call itself against a real server: bounded in time and size, no redirects, and only where a console may call."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from tests.certificates import self_signed
from tests.tuneplane_server.alerts.receiver import Receiver
from tuneplane_server.features.alerts.sending import ANSWER_BYTES, Sender, resolve

HEADERS = {"webhook-id": "msg_1"}


def named(*addresses: str) -> object:
    """A resolver that gives these whatever it is asked for."""

    async def look(_host: str, _port: int) -> Sequence[str]:
        return addresses

    return look


async def test_an_answer_of_success_is_a_delivery_and_its_body_is_read_to_a_bound(receiver: Receiver) -> None:
    receiver.answers = [
        (200, {}, b"x" * (40 * ANSWER_BYTES)),
        (302, {"location": receiver.url("/elsewhere")}, b""),
        (429, {"retry-after": "7"}, b""),
    ]
    sender = Sender({"127.0.0.1": receiver.port})
    first = await sender.send(receiver.url(), HEADERS, b"{}")
    assert (first.status, first.delivered, first.error) == (200, True, "")
    second = await sender.send(receiver.url(), HEADERS, b"{}")
    assert (second.status, second.delivered, second.error) == (302, False, "answered 302")
    third = await sender.send(receiver.url(), HEADERS, b"{}")
    assert third.retry_after == timedelta(seconds=7)
    assert [call.path for call in receiver.received] == ["/hook"] * 3, "nobody is followed elsewhere"


async def test_a_receiver_that_does_not_answer_is_given_up(receiver: Receiver) -> None:
    receiver.hold = threading.Event()
    sent = await Sender({"127.0.0.1": None}, seconds=0.3).send(receiver.url(), HEADERS, b"{}")
    assert (sent.status, sent.error) == (None, "no answer within 0.3 s")


async def test_who_listens_nowhere_is_an_error_like_any_other() -> None:
    sent = await Sender({"127.0.0.1": None}).send("http://127.0.0.1:1/x", HEADERS, b"{}")
    assert (sent.status, "ConnectError" in sent.error) == (None, True)


@pytest.mark.parametrize(("url", "addresses", "word"), [
    ("https://hooks.example.org/x", ("127.0.0.1",), "not a public address"),
    ("https://hooks.example.org/x", ("8.8.8.8", "10.0.0.1"), "10.0.0.1"),
    ("https://hooks.example.org/x", ("::ffff:169.254.169.254",), "not a public address"),
    ("https://hooks.example.org/x", (), "has no address"),
    ("https://hooks.example.org/x", ("nonsense",), "not a public address"),
    ("http://hooks.example.org/x", ("8.8.8.8",), "plain http"),
    ("https://u:p@hooks.example.org/x", ("8.8.8.8",), "credentials"),
])  # fmt: skip
async def test_where_a_console_does_not_call(url: str, addresses: tuple[str, ...], word: str) -> None:
    sent = await Sender({}, named(*addresses)).send(url, HEADERS, b"{}")  # ty: ignore[invalid-argument-type]
    assert (sent.status, word in sent.error) == (None, True)


async def test_the_call_goes_to_the_address_that_was_looked_at_with_the_name_in_its_head(receiver: Receiver) -> None:
    """A name that points elsewhere a moment later gains nothing: it is not asked again."""
    asked: list[str] = []

    async def once(host: str, _port: int) -> Sequence[str]:
        asked.append(host)
        assert len(asked) == 1
        return ["127.0.0.1"]

    sender = Sender({"hooks.internal": None}, once)
    sent = await sender.send(f"http://hooks.internal:{receiver.port}/x", HEADERS, b"{}")
    assert (sent.status, receiver.received[0].headers["host"]) == (204, f"hooks.internal:{receiver.port}")


async def test_this_machine_s_own_resolver_knows_its_own_names() -> None:
    assert set(await resolve("localhost", 80)) <= {"127.0.0.1", "::1"}
    sent = await Sender({}).send("https://name.invalid/x", HEADERS, b"{}")
    assert sent.status is None


async def test_tls_asks_for_the_name_and_not_for_the_address_and_believes_nobody(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(tmp_path, x509.DNSName("hooks.example.org")))
    asked: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    reached: list[object] = []

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(writer)  # only after the handshake

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        sender = Sender({"hooks.example.org": None}, named("127.0.0.1"))  # ty: ignore[invalid-argument-type]
        sent = await sender.send(f"https://hooks.example.org:{port}/x", HEADERS, b"{}")
    assert (sent.status, "certificate" in sent.error.lower()) == (None, True), sent.error
    assert (asked, reached) == (["hooks.example.org"], [])


async def test_whatever_goes_wrong_is_a_try_that_failed(receiver: Receiver) -> None:
    """An exception out of a try would leave its delivery waiting for ever."""

    async def broken(_host: str, _port: int) -> Sequence[str]:
        raise UnicodeEncodeError("idna", "a..b", 0, 1, "label empty")

    sent = await Sender({}, broken).send("https://hooks.example.org/x", HEADERS, b"{}")
    assert (sent.status, "UnicodeEncodeError" in sent.error) == (None, True)
    receiver.answers = [(429, {"retry-after": "Fri, 31 Dec 9999 23:59:59 -2359"}, b"")]
    later = await Sender({"127.0.0.1": None}).send(receiver.url(), HEADERS, b"{}")
    assert (later.status, later.retry_after) == (429, None)


async def test_a_name_of_other_letters_is_sent_as_it_is_looked_up(receiver: Receiver) -> None:
    sender = Sender({"xn--bcher-kva.example": None}, named("127.0.0.1"))  # ty: ignore[invalid-argument-type]
    sent = await sender.send(f"http://Bücher.example:{receiver.port}/x", HEADERS, b"{}")
    assert sent.delivered, sent.error
    (call,) = receiver.received
    assert call.headers["host"] == f"xn--bcher-kva.example:{receiver.port}"
