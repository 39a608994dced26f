"""Compressed bodies: several members are one, bombs get nowhere, what is cut off or no archive is refused."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest
from compression import zstd
from hypothesis import given
from hypothesis import strategies as st

from tuneplane.contract.words import MAX_BATCH_BYTES
from tuneplane_server.features.ingest.bodies import WINDOW_LOG, BodyError, inflate

MAKERS = {"gzip": gzip.compress, "zstd": zstd.compress, "identity": bytes}


@pytest.mark.parametrize("encoding", MAKERS)
@given(parts=st.lists(st.binary(max_size=200), max_size=4))
def test_members_one_after_another_are_one_body(encoding, parts):
    body = b"".join(MAKERS[encoding](part) for part in parts)
    assert inflate(body, encoding) == b"".join(parts)


def test_no_encoding_is_identity_and_case_does_not_matter():
    assert inflate(b"x", "") == b"x"
    assert inflate(gzip.compress(b"x"), " GZip ") == b"x"


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_body_of_exactly_the_limit_is_taken_and_one_byte_more_is_not(encoding):
    make = MAKERS[encoding]
    assert len(inflate(make(b"x" * MAX_BATCH_BYTES), encoding)) == MAX_BATCH_BYTES
    with pytest.raises(BodyError) as refusal:
        inflate(make(b"x" * (MAX_BATCH_BYTES + 1)), encoding)
    assert refusal.value.kind == "large"
    with pytest.raises(BodyError):
        inflate(make(b"x" * MAX_BATCH_BYTES) + make(b"x"), encoding)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_bomb_costs_no_more_memory_than_the_limit(encoding):
    make = MAKERS[encoding]
    bomb = make(b"\0" * (1 << 20)) * 2000  # 2 GB from a few MB at most
    tracemalloc.start()
    try:
        with pytest.raises(BodyError) as refusal:
            inflate(bomb, encoding)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert refusal.value.kind == "large"
    assert peak < 4 * MAX_BATCH_BYTES


def test_a_frame_that_asks_for_a_huge_window_is_refused():
    parameter = zstd.CompressionParameter
    options: dict[int, int] = {parameter.window_log: WINDOW_LOG + 2, parameter.content_size_flag: 0}
    compressor = zstd.ZstdCompressor(options=options)
    frame = compressor.compress(b"x" * 1000) + compressor.flush()
    with pytest.raises(BodyError) as refusal:
        inflate(frame, "zstd")
    assert refusal.value.kind == "malformed"


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize(
    "spoil", [lambda b: b[:-3], lambda b: b"junk" + b, lambda b: b + b"junk", lambda b: b[: len(b) // 2]]
)
def test_what_is_cut_off_or_no_archive_is_refused(encoding, spoil):
    body = MAKERS[encoding](b"some text that is long enough to be cut" * 20)
    with pytest.raises(BodyError) as refusal:
        inflate(spoil(body), encoding)
    assert refusal.value.kind == "malformed"


def test_other_encodings_are_named_as_unknown():
    with pytest.raises(BodyError) as refusal:
        inflate(b"", "br")
    assert refusal.value.kind == "encoding"
    with pytest.raises(BodyError) as refusal:
        inflate(b"x" * (MAX_BATCH_BYTES + 1), "identity")
    assert refusal.value.kind == "large"
