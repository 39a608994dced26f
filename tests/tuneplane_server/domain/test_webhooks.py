"""Signatures that the library of Standard Webhooks accepts, rests that end, and addresses that are never called."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook

from tuneplane_server.domain import webhooks
from tuneplane_server.domain.webhooks import Target, UrlError, is_allowed, is_public, parse_hosts, rest_after, target


@settings(max_examples=40, deadline=None)
@given(st.binary(min_size=24, max_size=64), st.text(max_size=200))
def test_the_library_of_the_standard_accepts_our_signature_and_no_other_body(random: bytes, text: str) -> None:
    secret, now = webhooks.make_secret(random), int(datetime.now(UTC).timestamp())
    body = b'{"type":"test.ping","data":' + __import__("json").dumps(text).encode() + b"}"
    headers = webhooks.headers(secret, "msg_1", now, body)
    assert Webhook(secret).verify(body, headers)["data"] == text
    with pytest.raises(Exception, match="signature"):
        Webhook(secret).verify(body + b" ", headers)
    with pytest.raises(Exception, match="signature"):
        Webhook(webhooks.make_secret(random + b"x")).verify(body, headers)


def test_rests_grow_and_end() -> None:
    rests = [rest_after(tries) for tries in range(1, webhooks.MAX_TRIES + 2)]
    assert rests[-2:] == [None, None]
    known = [rest for rest in rests if rest is not None]
    assert known == sorted(known)
    assert sum(known, timedelta()) < timedelta(days=2)
    assert rest_after(1, timedelta(minutes=10)) == timedelta(minutes=10)
    assert rest_after(4, timedelta(seconds=1)) == timedelta(minutes=30), "it may ask for more, not for less"
    assert rest_after(1, timedelta(days=400)) == webhooks.MAX_RETRY_AFTER
    assert rest_after(0) == webhooks.RESTS[0]


@pytest.mark.parametrize(("url", "expected"), [
    ("https://Hooks.Example.org/a?b=c", Target("https", "hooks.example.org", 443)),
    ("http://10.0.0.5:8080/x", Target("http", "10.0.0.5", 8080)),
    ("https://[fd00::1]/x", Target("https", "fd00::1", 443)),
    ("http://example.org.", Target("http", "example.org", 80)),
    ("https://Bücher.example/x", Target("https", "xn--bcher-kva.example", 443)),
    ("http://１２７.0.0.1/x", Target("http", "127.0.0.1", 80)),
])  # fmt: skip
def test_where_a_url_points(url: str, expected: Target) -> None:
    assert target(url) == expected


@pytest.mark.parametrize(("url", "why"), [
    ("ftp://example.org", "form"),
    ("//example.org", "form"),
    ("https://", "form"),
    ("https://example.org:99999/", "form"),
    ("https://[::1/", "form"),
    ("https://exa mple.org", "form"),
    ("https://example.org/\n", "form"),
    ("https://example.org\\@10.0.0.1/", "form"),
    ("https://exa%2fmple.org/", "form"),
    ("https://a..example.com/", "form"),
    ("https://" + "a" * 64 + ".example.com/", "form"),
    ("https://./", "form"),
    ("https://exa!mple.org/", "form"),
    ("https://example.org/" + "x" * 2000, "form"),
    ("https://user:word@example.org/", "credentials"),
    ("https://example.org/#x", "fragment"),
])  # fmt: skip
def test_what_is_no_address_of_a_webhook(url: str, why: str) -> None:
    with pytest.raises(UrlError) as error:
        target(url)
    assert error.value.why == why


PRIVATE = [
    "127.0.0.1", "127.8.9.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
    "224.0.0.1", "255.255.255.255", "240.0.0.1", "::1", "::", "fe80::1", "fec0::1", "fd00::1", "ff02::1", "::ffff:127.0.0.1",
    "::ffff:10.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2001:0:0:1::1", "2001:db8::1",
    "198.18.0.1", "192.0.2.1",
]  # fmt: skip


@pytest.mark.parametrize("text", PRIVATE)
def test_addresses_that_a_console_does_not_call(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808", "2002:808:808::1"])
def test_addresses_that_anybody_may_call(text: str) -> None:
    assert is_public(ip_address(text)) is (text != "2002:808:808::1"), "6to4 is gone from the Internet"


def test_hosts_that_an_administrator_named() -> None:
    allowed = parse_hosts("hooks.internal, 10.0.0.5:8080 ,[fd00::1]:9000,bücher.example")
    assert allowed == {"hooks.internal": None, "10.0.0.5": 8080, "fd00::1": 9000, "xn--bcher-kva.example": None}
    assert is_allowed(Target("http", "hooks.internal", 1234), allowed)
    assert is_allowed(Target("http", "10.0.0.5", 8080), allowed)
    assert not is_allowed(Target("http", "10.0.0.5", 80), allowed)
    assert not is_allowed(Target("http", "10.0.0.6", 8080), allowed)
    for text in ("http://x/y", "a/b", "user@host", ":80", "host:99999"):
        with pytest.raises(ValueError, match=r"host|port|Port|0-65535"):
            parse_hosts(text)


def test_a_name_is_no_address_and_a_zone_is_left_out() -> None:
    assert webhooks.parse_address("example.org") is None
    assert webhooks.parse_address("fe80::1%eth0") == ip_address("fe80::1")
