"""Cursors into a run's output: what we made comes back, anything else is refused."""

from __future__ import annotations

import base64
import random

import pytest
from compression import zstd
from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain import cursors
from tuneplane_server.domain.cursors import CursorError, RankPlace
from tuneplane_server.domain.terminal_fold import FoldState

numbers = st.integers(0, 2**63 - 1)
states = st.builds(
    FoldState,
    numbers,
    numbers,
    st.sampled_from(["line", "screen", "skip"]),
    st.text(max_size=40),
    st.integers(0, 500),
    st.none() | st.floats(0, 4e9),
    st.booleans(),
    st.binary(max_size=8),
)
open_lines = st.lists(st.tuples(st.integers(0, 2), states), max_size=3).map(tuple)
levels = st.just(()) | st.tuples(*[st.integers(0, 8)] * 3).filter(any)
places = st.builds(RankPlace, numbers, numbers, open_lines, levels, st.integers(0, cursors.MAX_CONTEXT))


@given(st.dictionaries(st.tuples(numbers, numbers), places, max_size=4))
def test_a_cursor_comes_back_as_it_was(cursor):
    assert cursors.decode_log_cursor(cursors.encode_log_cursor(cursor)) == cursor


def test_a_cursor_too_long_for_an_address_gives_up_what_redrawn_lines_show():
    bars = random.Random(1)
    cursor = {
        (1, rank): RankPlace(9, 0, ((1, FoldState(9, 0, "screen", bars.randbytes(800).hex(), 3, 1.0, True)),))
        for rank in range(64)
    }
    text = cursors.encode_log_cursor(cursor)
    assert len(text) <= cursors.MAX_TEXT
    back = cursors.decode_log_cursor(text)
    assert back[1, 5].open[0][1] == FoldState(9, 0, "screen", "", 0, 1.0, True)


def test_one_rank_without_an_open_line_is_short():
    assert len(cursors.encode_log_cursor({(1, 0): RankPlace(123456, 42)})) < 40


def packed(data: bytes) -> str:
    return "z" + base64.urlsafe_b64encode(zstd.compress(data)).decode().rstrip("=")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "p",
        "pbm90IGpzb24",
        "x" + cursors.encode_log_cursor({})[1:],
        "p!!!",
        "p\u5b57",
        "zAAAA",
        packed(b"[" * 100_000),
        packed(b" " * (cursors.MAX_JSON + 1)),
        "p" + base64.urlsafe_b64encode(b"[[1,2,-3,0,[]]]").decode().rstrip("="),
        "p" + base64.urlsafe_b64encode(b'[[1,2,3,0,[[7,1,1,"line"]]]]').decode().rstrip("="),
        "p" + base64.urlsafe_b64encode(b'[[1,2,3,0,[[0,1,1,"what"]]]]').decode().rstrip("="),
        "p" + base64.urlsafe_b64encode(b"[[1,2,99999999999999999999,0,[]]]").decode().rstrip("="),
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(CursorError):
        cursors.decode_log_cursor(text)


@given(st.builds(cursors.LineId, *[st.integers(0, 2**31 - 1)] * 3, numbers, numbers))
def test_the_name_of_a_line_comes_back_as_it_was(line):
    assert cursors.decode_line_id(cursors.encode_line_id(line)) == line


@pytest.mark.parametrize("text", ["", "!", "AAAA", "A" * 500, "_" * 60, "AQAAAQAA", "_____w8AAAAA"])
def test_what_is_no_name_of_a_line_is_refused(text):
    with pytest.raises(CursorError):
        cursors.decode_line_id(text)
