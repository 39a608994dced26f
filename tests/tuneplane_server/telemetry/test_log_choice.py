"""Choosing lines of a log: by level, descriptor and text with what stands around it; and links to one line."""

from __future__ import annotations

import pytest

from tests.tuneplane_server.telemetry.build import JOB, START, log, logs, page, read_all, texts
from tuneplane_server.domain.cursors import (
    CursorError,
    LineId,
    decode_line_id,
    decode_log_cursor,
    encode_line_id,
    encode_log_cursor,
)
from tuneplane_server.features.telemetry.log_reader import LogQuery

OUTPUT = """step 1
INFO saved
WARNING slow
  because
Traceback (most recent call last):
  File "a.py", line 1, in f
    g()
ValueError: bad
step 2
ERROR gone
"""
GRAVE = [*OUTPUT.split("\n")[2:8], "ERROR gone"]


@pytest.fixture
async def output(telemetry):
    await telemetry.store(JOB, 1, logs(*(log(seq, line + "\n") for seq, line in enumerate(OUTPUT.split("\n")[:-1], 1))))
    return telemetry


async def test_a_level_asks_for_it_and_what_is_graver(output):
    assert await texts(output, level="warning") == GRAVE
    assert await texts(output, level="error") == [*GRAVE[2:]]
    assert await texts(output, level="debug") == OUTPUT.split("\n")[:-1]
    assert await texts(output, level="error", grep="g()") == ["    g()"]


async def test_pages_cut_anywhere_find_the_same_lines(output):
    """A traceback that a page ends in goes on as one on the next page."""
    for limit in (1, 2, 3):
        assert [text for _rank, _fd, text in await read_all(output, limit=limit, level="warning")] == GRAVE
        cursor, found = None, []
        while True:
            some = await page(output, cursor=cursor, limit=limit)
            found += [(line.text, line.level) for line in some.lines]
            cursor = decode_log_cursor(encode_log_cursor(some.cursor))
            if not some.more:
                break
        assert [text for text, level in found if level in ("warning", "error")] == GRAVE


async def test_backwards_and_from_the_end_they_are_the_same(output):
    last = await page(output, tail=2, level="warning")
    assert [line.text for line in last.lines] == GRAVE[-2:]
    before = await page(output, before=last.start, limit=3, level="warning")
    assert [line.text for line in before.lines] == GRAVE[-5:-2]


async def test_a_descriptor_alone_with_our_remarks(telemetry):
    await telemetry.store(JOB, 1, logs(log(1, "out\n"), log(2, "err\n", fd="stderr"), log(3, "run\n", fd="runner")))
    for fd, text in (("stdout", "out"), ("stderr", "err"), ("runner", "run")):
        assert await texts(telemetry, fd=fd) == [text]
    tail = await page(telemetry, tail=1, fd="stdout")
    assert [line.text for line in tail.lines] == ["out"]


async def test_what_stands_around_a_match_is_told_apart(output):
    found = (await page(output, grep="saved", context=1)).lines
    assert [(line.text, line.match) for line in found] == [
        ("step 1", False),
        ("INFO saved", True),
        ("WARNING slow", False),
    ]
    close = (await page(output, grep="step", context=2)).lines
    assert [line.text for line in close if line.match] == ["step 1", "step 2"]
    assert len(close) == len({line.id for line in close}) == 7  # lines that belong to two matches come once


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_around_matches_no_line_comes_twice_or_is_missed_whatever_the_pages(output, limit):
    whole = [line.id for line in (await page(output, grep="step", context=2)).lines]
    found, cursor = [], None
    for _page in range(50):
        some = await page(output, cursor=cursor, limit=limit, grep="step", context=2)
        found += [line.id for line in some.lines]
        cursor = decode_log_cursor(encode_log_cursor(some.cursor))
        if not some.more:
            break
    assert found == whole


async def test_who_follows_gets_what_stands_in_front_of_a_later_match(telemetry):
    await telemetry.store(JOB, 1, logs(log(1, "a\nb\n")))
    first = await page(telemetry, grep="match", context=1, live_attempt=1)
    assert first.lines == []
    await telemetry.store(JOB, 1, logs(log(2, "the match\nc\nd\n")))
    then = await page(telemetry, grep="match", context=1, live_attempt=1, cursor=first.cursor)
    assert [line.text for line in then.lines] == ["b", "the match", "c"]


async def test_a_link_to_a_line_begins_there_and_the_other_machines_at_that_moment(telemetry):
    records = [log(seq, f"{rank}:{seq}\n", rank=rank, time=START + seq * 10) for rank in (0, 1) for seq in range(1, 30)]
    await telemetry.store(JOB, 1, logs(*records))
    await telemetry.store(JOB, 2, logs(log(1, "second attempt\n", time=START + 1000)))
    everything = (await page(telemetry)).lines
    for line in everything[::7]:
        where = decode_line_id(line.id)
        shown = (await page(telemetry, at=where, limit=40)).lines
        place = next(index for index, one in enumerate(shown) if one.id == line.id)
        assert shown[place].text == line.text
        assert shown[-1].text == "second attempt" or len(shown) == 40
        earlier = await page(telemetry, before=(await page(telemetry, at=where, limit=5)).start, limit=3)
        assert len(earlier.lines) == min(3, everything.index(shown[0])) or earlier.lines


async def test_a_link_to_a_line_in_the_middle_of_a_piece_and_over_pieces(telemetry):
    await telemetry.store(JOB, 1, logs(log(1, "a\nb\nc\nlong"), log(2, " line\nd\n")))
    lines = (await page(telemetry)).lines
    assert [line.text for line in lines] == ["a", "b", "c", "long line", "d"]
    for line in lines:
        shown = (await page(telemetry, at=decode_line_id(line.id))).lines
        assert line.id in [one.id for one in shown]
        assert len({one.id for one in shown}) == len(shown)


async def test_a_link_to_nothing_shows_what_is_there(output):
    beyond = LineId(1, 0, 0, 10**9, 0)
    assert (await page(output, at=beyond)).lines == []
    assert (await page(output, at=LineId(9, 9, 0, 1, 0))).lines == []


def test_names_of_lines_come_back_and_others_are_refused():
    for line in (LineId(1, 0, 0, 1, 0), LineId(2**31 - 1, 2**31 - 1, 3, 2**63 - 1, 2**20)):
        assert decode_line_id(encode_line_id(line)) == line
    assert len(encode_line_id(LineId(1, 0, 0, 1000, 200))) <= 12
    for text in ("", "!", "AAAA", "A" * 500, "_" * 60, encode_line_id(LineId(1, 0, 0, 1, 0)) + "AA"):
        with pytest.raises(CursorError):
            decode_line_id(text)


async def test_a_search_by_level_in_much_output_is_told_quickly_what_holds_none(telemetry):
    """What cannot hold a grave line is passed over; the ones among it are found all the same."""
    plain = "".join(f"step {n} loss 0.5\n" for n in range(20_000))
    await telemetry.store(JOB, 1, logs(log(1, plain), log(2, "x\nERROR here\n  more of it\ny\n"), log(3, plain)))
    assert await texts(telemetry, level="warning") == ["ERROR here", "  more of it"]
    assert LogQuery(level="error").searches
