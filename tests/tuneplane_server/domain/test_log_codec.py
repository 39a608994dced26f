"""Stored chunks of output: every byte comes back, damaged rows are told."""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain import log_codec
from tuneplane_server.domain.log_codec import LogChunkError, Piece

pieces = st.lists(
    st.builds(Piece, st.integers(0, 2**63 - 1), st.floats(allow_nan=False), st.binary(max_size=300)), max_size=30
)


@given(pieces)
def test_decoding_gives_back_every_byte(given_pieces):
    assert log_codec.decode(log_codec.encode(given_pieces)) == given_pieces


def test_bytes_that_do_not_shrink_are_kept_as_they_are():
    noise = [Piece(1, 1.0, random.Random(1).randbytes(1000))]
    assert log_codec.encode(noise)[0] == log_codec.PLAIN
    assert log_codec.decode(log_codec.encode(noise)) == noise


def test_a_progress_bar_is_stored_small():
    bar = [Piece(i, i / 10, f"\r{i % 100:3d}%|{'#' * (i % 100 // 2):50s}| {i}/10000".encode()) for i in range(2000)]
    assert len(log_codec.encode(bar)) < sum(len(piece.data) for piece in bar) / 8


def good():
    return log_codec.encode([Piece(1, 1.0, b"one\n" * 100), Piece(2, 2.0, b"two\n")])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x07abc",
        b"\x00\x00",
        b"\x01not zstd",
        good()[:-4],
        b"\x00" + struct.pack("<I", 2**31),
        b"\x00" + struct.pack("<IQdI", 1, 1, 1.0, 5) + b"four",
        b"\x00" + struct.pack("<IQdI", 1, 1, 1.0, 3) + b"four",
        b"\x00" + struct.pack("<I", 1) + b"x" * 19,
    ],
)
def test_damaged_rows_are_told_from_good_ones(data):
    with pytest.raises(LogChunkError):
        log_codec.decode(data)
