"""Raw output -> lines: however the bytes are cut into pieces and wherever reading is resumed, the lines are the same."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneplane_server.domain.terminal_fold import MAX_LINE_BYTES, FoldState, LineFolder

MARK = "[cut]"

alphabet = st.sampled_from(
    [
        b"a",
        b"bc",
        b"\n",
        b"\r",
        b"\r\n",
        b"\0",
        b"\xff",
        b"\t",
        b"\x1b[K",
        b"\x1b[31m",
        b"\x1b",
        b"\b",
        "字".encode(),
        "🙂".encode(),
    ]
)
outputs = st.lists(alphabet, max_size=60).map(b"".join)


def folder(state: FoldState | None = None, *, fold: bool = True) -> LineFolder:
    return LineFolder(state or FoldState(), fold=fold, cut_marker=MARK)


def texts(pieces: list[bytes], *, fold: bool = True, gap: float = 0.0) -> list[str]:
    one = folder(fold=fold)
    lines = [line.text for n, data in enumerate(pieces) for line in one.feed(n + 1, 0, data, n * gap)]
    return lines + [line.text for line in one.finish(0.0)]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(outputs, st.lists(st.integers(0, 1000), max_size=8))
def test_without_folding_the_cuts_between_pieces_do_not_show(data, places):
    assert texts(cut(data, places), fold=False) == texts([data], fold=False)


@given(outputs, st.lists(st.integers(0, 1000), max_size=8))
def test_the_final_state_of_every_line_is_the_same_however_the_bytes_are_cut(data, places):
    """A line that is open at the end of a piece may show a state more; the ends of lines are the same."""
    whole, pieces = texts([data]), texts(cut(data, places))
    remaining = iter(pieces)
    assert all(any(line == other for other in remaining) for line in whole)


@settings(max_examples=300)
@given(outputs, st.lists(st.integers(0, 1000), max_size=8), st.booleans(), st.sampled_from([0.0, 0.4, 1.5]))
def test_reading_can_be_resumed_after_any_line(data, places, fold, gap):
    pieces = cut(data, places)
    one = folder(fold=fold)
    lines = [line for n, part in enumerate(pieces) for line in one.feed(n + 1, 0, part, n * gap)]
    for index, line in enumerate(lines):
        rest = [found.text for found in resumed(line.after, pieces, fold, gap)]
        assert rest == [later.text for later in lines[index + 1 :]]


@given(outputs, st.lists(st.integers(0, 1000), max_size=8), st.integers(0, 8), st.sampled_from([0.0, 0.4, 1.5]))
def test_reading_can_be_resumed_between_pieces(data, places, at, gap):
    pieces = cut(data, places)
    one = folder()
    before = [line.text for n, part in enumerate(pieces[:at]) for line in one.feed(n + 1, 0, part, n * gap)]
    whole = folder()
    lines = [line.text for n, part in enumerate(pieces) for line in whole.feed(n + 1, 0, part, n * gap)]
    assert before + [line.text for line in resumed(one.state(), pieces, True, gap)] == lines


def resumed(state, pieces, fold, gap):
    again = folder(state, fold=fold)
    for n, part in enumerate(pieces):
        offset = state.offset if n + 1 == state.seq else 0
        if n + 1 >= state.seq and (offset < len(part)):
            yield from again.feed(n + 1, offset, part[offset:], n * gap)


def test_a_hundred_thousand_redraws_in_a_minute_show_about_once_a_second_and_at_the_end():
    one = folder()
    lines = []
    for n in range(100_000):
        lines += one.feed(n + 1, 0, f"\rstep {n + 1}/100000".encode(), n * 0.0006)
    lines += one.feed(100_001, 0, b"\n", 60.0)
    assert 55 <= len(lines) <= 62
    assert lines[-1].text == "step 100000/100000"


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        (b"abc\rX\n", ["Xbc"]),
        (b"abc\r\n", ["abc"]),
        (b"abc\r\r\n", ["abc"]),
        (b"\r\n\n", ["", ""]),
        (b"downloading\r\x1b[Kdone\n", ["done"]),
        (b"12345\x1b[2D\x1b[1K!\n", ["   !5"]),
        (b"12345\x1b[2D\x1b[1K\n", ["    5"]),
        (b"12345\x1b[2K\rab\n", ["ab"]),
        (b"abc\x1b[1GX\x1b[CY\n", ["XbY"]),
        (b"abc\b\bX\n", ["aXc"]),
        (b"\x1b[1;32mgreen\x1b[0m\tx\n", ["green\tx"]),
        (b"a\rb\tc\n", ["b       c"]),
        (b"\x1b]0;title\x07text\n", ["text"]),
        (b"\x1b]0;title\x1b\\text\x1b(B\n", ["text"]),
        (b"bell\x07\n", ["bell"]),
        ("进度 10%\r进度 20%\n".encode(), ["进度 20%"]),
        ("字ab\rx\n".encode(), ["x ab"]),
        ("ab字\r\x1b[2Cx\n".encode(), ["abx "]),
        ("abc\r字\n".encode(), ["字c"]),
        ("a字\r字\n".encode(), ["字 "]),
        ("e\u0301\r\n\u0301x\r\n".encode(), ["e\u0301", "\u0301x"]),
        ("字\u0301b\b\rc\n".encode(), ["c b"]),
        (b"x\r\xcc\x81y\n", ["y"]),
        (b"a\r\x1b[99999Cb\n", ["a"]),
        (b"a\r\x1b[3Cb\n", ["a  b"]),
        (b"ab\x1b[9J\rc\n", ["cb"]),
        (b"abc\b\x1b[0K\n", ["ab"]),
        (b"abc\x1b[7K\b!\n", ["ab!"]),
    ],
)
def test_a_line_looks_as_a_terminal_leaves_it(output, shown):
    assert texts([output]) == shown


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["🙂".encode()[:2], "🙂".encode()[2:] + b"\n"], ["🙂"]),
        ([b"a\r\xf0\x9f", b"\x99\x82\n"], ["a", "🙂"]),
        ([b"a\rb\x1b[", b"K\n"], ["b"]),
        ([b"a\rb\x1b"], ["b"]),
        ([b"a\rb\x1b", b"[3"], ["b"]),
        ([b"a\rb\xf0\x9f\n"], ["b\ufffd"]),
        ([b"a\rb\xf0\x9f", b"\n"], ["b", "b\ufffd"]),
        ([b"\xce\xd2\xb0\xae\n"], ["\ufffd\u04b0\ufffd"]),
        ([b"\xff\n"], ["\ufffd"]),
        ([b"a\0b\n"], ["a\ufffdb"]),
        ([b"\ra\0b\n"], ["a\ufffdb"]),
        ([b"no newline"], ["no newline"]),
        ([b"10%\r", b"20%\r", b"30%\r"], ["20%", "30%"]),
        ([b"10%\r", b"\r", b"\n"], ["10%"]),
        ([b"same\rsame", b"\rsame", b"\n"], ["same"]),
        ([], []),
    ],
)
def test_pieces_cut_at_awkward_places(pieces, shown):
    assert texts(pieces) == shown


def test_an_escape_that_never_ends_does_not_hide_what_follows():
    assert texts([b"a\rb\x1b[" + b"1" * 1000, b"c\n"])[-1].endswith("c")


def test_without_folding_carriage_returns_are_kept_and_nul_is_replaced():
    assert texts([b"a\rb\r\n\0\n"], fold=False) == ["a\rb", "\ufffd"]


@pytest.mark.parametrize("size", [1, 1000, 20 * 1024 * 1024])
def test_a_long_line_is_cut_once_and_the_next_is_whole(size):
    data = b"x" * MAX_LINE_BYTES + b"y" * size + b"\nnext\n"
    lines = texts([data[i : i + 65536] for i in range(0, len(data), 65536)])
    assert lines == ["x" * MAX_LINE_BYTES + MARK, "next"]


def test_a_line_of_exactly_the_limit_is_not_cut():
    assert texts([b"x" * MAX_LINE_BYTES + b"\n"]) == ["x" * MAX_LINE_BYTES]


@pytest.mark.parametrize("before", ["x", "xx", "xxx"])
def test_a_cut_does_not_go_through_a_character(before):
    lines = texts([before.encode() + "字".encode() * MAX_LINE_BYTES + b"\n"])
    assert lines == [before + "字" * ((MAX_LINE_BYTES - len(before)) // 3) + MARK]


def test_a_long_line_that_ends_while_skipped_leaves_the_folder_at_a_line_start():
    one = folder()
    list(one.feed(1, 0, b"x" * (MAX_LINE_BYTES + 5), 0.0))
    assert one.state() == FoldState(1, MAX_LINE_BYTES + 5, "skip")
    assert list(one.finish(0.0)) == []
    assert one.state().mode == "line"


def test_whole_lines_can_be_passed_over():
    one = folder()
    one.skip_to(3, 10)
    assert one.state() == FoldState(3, 10)
    assert [line.text for line in one.feed(3, 10, b"next\n", 0.0)] == ["next"]
    list(one.feed(3, 15, b"open", 0.0))
    with pytest.raises(AssertionError):
        one.skip_to(4, 0)


def test_a_clock_set_back_does_not_silence_a_progress_bar():
    one = folder()
    shown = [
        line.text
        for seq, time in enumerate([1000.0, 500.0, 500.5])
        for line in one.feed(seq, 0, f"\r{seq}".encode(), time)
    ]
    assert shown == ["0", "1"]
