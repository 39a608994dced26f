"""Bytes that nobody meant: the decoder refuses or takes them, the address answers, and memory stays within bounds."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import anyio.from_thread
import pytest
from compression import zstd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tuneplane_server.ingest.conftest import console_on, runner_of
from tests.tuneplane_server.ingest.wire_build import event, log, metric, ndjson, sample
from tuneplane.contract.words import MAX_BATCH_BYTES
from tuneplane_server.features.ingest import bodies, wire

PACK: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": lambda data: gzip.compress(data, 1),
    "zstd": zstd.compress,
}
ODD = ["NaN", "Infinity", "-Infinity", 1e308, -0.0, 2**53]
VALID = ndjson(
    log(1, "a\r\x00\u2028\U0001f600\n"),
    log(2, "", data=None, data64="/wA="),
    metric(1, ODD),
    metric(2, [], name="train/\u635f\u5931 '\"/../"),
    sample(1, {"completion": "x" * 50, "reward": {"a": [1, {}]}}),
    event(1, "checkpoint", {"step": 3}),
    event(2, "gap", {"stream": "log", "rank": 0, "records": 3, "bytes": 10, "after_seq": 7}),
)
# Pieces that mean something to a reader of JSON, of numbers or of a database.
PIECES = st.sampled_from(
    [
        b"\x00",
        b"\\u0000",
        b"\\ud800",
        b"\xff",
        b"NaN",
        b"1e999",
        b"-1",
        b"99999999999999999999",
        b"[" * 200,
        b"null",
        b'"',
        b"\n",
        b"{}",
        b'"rank":2147483648',
        b'"seq":0',
        b'"attempt":2',
        b'"stream":"event"',
        b'"stream":"log"',
        b"true",
        b"\xc3",
    ]
)


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """A batch that was good until somebody cut it, wrote into it or put its parts together anew."""
    data = bytearray(VALID)
    for _change in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 40)))
        data[start:end] = draw(st.one_of(PIECES, st.binary(max_size=8), st.just(bytes(data[end : end + 30]))))
    return bytes(data)


@st.composite
def sent(draw: st.DrawFn) -> tuple[bytes, str]:
    """A body and what it says of itself, which need not be so; the packed bytes may be spoilt too."""
    name = draw(st.sampled_from(sorted(PACK)))
    body = bytearray(PACK[name](draw(st.one_of(spoilt(), st.binary(max_size=200)))))
    if body and draw(st.booleans()):
        body[draw(st.integers(0, len(body) - 1))] ^= draw(st.integers(1, 255))
    return bytes(body), draw(st.sampled_from([name, name, name, *sorted(PACK), "br", ""]))


@settings(max_examples=400, deadline=None)
@given(sent())
def test_the_decoder_takes_or_refuses(body_and_encoding):
    body, encoding = body_and_encoding
    with suppress(bodies.BodyError, wire.WireError):  # whatever else is raised would be a 500
        batch = wire.decode_batch(bodies.inflate(body, encoding), 1)
        assert len(batch) <= VALID.count(b"\n") + 8


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=100), spoilt()))
def test_heartbeats_are_taken_or_refused(body):
    with suppress(wire.WireError):
        attempt, rank, _state, _time = wire.decode_heartbeat(body)
        assert attempt >= 1
        assert rank >= 0


@pytest.fixture
def post(migrated_url, tmp_path) -> Iterator[Callable[[bytes, str], int]]:
    """Send a body to the console of this test and get the status: on SQLite and on Postgres."""
    with ExitStack() as stack:
        portal = stack.enter_context(anyio.from_thread.start_blocking_portal())
        console = stack.enter_context(portal.wrap_async_context_manager(console_on(migrated_url, tmp_path)))
        runner = stack.enter_context(portal.wrap_async_context_manager(runner_of(console)))

        async def send(body: bytes, encoding: str) -> int:
            return (await runner.raw(body, encoding)).status_code

        yield lambda body, encoding: portal.call(send, body, encoding)


def test_no_body_makes_the_console_stumble(post):
    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(sent())
    def any_body(body_and_encoding: tuple[bytes, str]) -> None:
        assert post(*body_and_encoding) in (200, 400, 403, 413, 415)

    assert post(VALID, "identity") == 200
    any_body()


DENSE = {
    "empty lists in a sample": b'{"attempt":1,"rank":0,"stream":"sample","seq":1,"samples":[{"kind":"completion","step":1,"time":0,"data":{"a":[%s]}}]}'
    % b",".join([b"[]"] * 1_300_000),
    "empty objects in an event": b'{"attempt":1,"rank":0,"stream":"event","seq":1,"time":0,"event":"x","data":{"a":[%s]}}'
    % b",".join([b"{}"] * 1_300_000),
    "lines of nothing": b"\n" * (MAX_BATCH_BYTES - 1),
    "a column of ones": b'{"attempt":1,"rank":0,"stream":"metric","seq":1,"series":{"a":{"step":[%s],"time":[],"value":[]}}}'
    % b",".join([b"1"] * 2_000_000),
    "columns of fractions": b'{"attempt":1,"rank":0,"stream":"metric","seq":1,"series":{"a":{"step":[],"time":[%s],"value":[]}}}'
    % b",".join([b"0.5"] * 1_000_000),
    "one open list": b"[" * (MAX_BATCH_BYTES - 1),
}


@pytest.mark.parametrize("what", sorted(DENSE))
def test_a_batch_that_is_dense_costs_no_more_than_sixteen_times_its_size(what):
    """Bounded memory: 4 MiB of NDJSON, packed to a few KiB, never become more than 64 MiB of objects."""
    assert len(DENSE[what]) <= MAX_BATCH_BYTES
    body = zlib.compress(DENSE[what], wbits=31)
    tracemalloc.start()
    try:
        with suppress(wire.WireError):
            wire.decode_batch(bodies.inflate(body, "gzip"), 1)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * MAX_BATCH_BYTES
