"""Reading output backwards: page by page from the end, from a time, from a match; what forward reading gives, once each."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.tuneplane_server.telemetry.build import JOB, START, log, logs, page, read_all, texts
from tuneplane_server.domain.cursors import decode_log_cursor, encode_log_cursor
from tuneplane_server.features.telemetry.log_reader import LogPage
from tuneplane_server.features.telemetry.service import TelemetryService

type Seen = tuple[int, int, str, str]


def seen(found: LogPage) -> list[Seen]:
    return [(line.attempt, line.rank, line.fd, line.text) for line in found.lines]


async def backwards(telemetry: TelemetryService, found: LogPage, sizes: Any, **query: Any) -> list[Seen]:
    """The lines of `found`, and page by page everything in front of them."""
    lines = seen(found)
    while any(place.seq for place in found.start.values()):
        before = decode_log_cursor(encode_log_cursor(found.start))
        found = await page(telemetry, before=before, limit=sizes(), **query)
        lines = seen(found) + lines
    return lines


async def fill(telemetry: TelemetryService, seed: int) -> None:
    """Two attempts, three ranks, two descriptors, lines over several pieces, the first attempt ends within lines."""
    dice = random.Random(seed)
    for attempt in (1, 2):
        for rank in range(3):
            records = []
            for seq in range(1, 81):
                text = "".join(
                    dice.choice([f"{attempt}.{rank}.{seq} ", "word ", "\n", "二\n"])
                    for _word in range(dice.randint(1, 6))
                )
                records.append(
                    log(seq, text, rank=rank, fd=dice.choice(["stdout", "stderr"]), time=START + 1000 * attempt + seq)
                )
            for first in range(0, 80, 7):
                await telemetry.store(JOB, attempt, logs(*records[first : first + 7]))


@pytest.mark.parametrize("seed", range(3))
async def test_pages_from_the_end_to_the_start_are_the_whole_log(telemetry, seed):
    await fill(telemetry, seed)
    dice = random.Random(seed)
    found = await page(telemetry, tail=20)
    whole = seen(await page(telemetry, limit=5000))
    assert len(whole) > 500
    lines = await backwards(telemetry, found, lambda: dice.randint(1, 90))
    for attempt in (1, 2):
        for rank in range(3):
            of_one = [line for line in whole if line[:2] == (attempt, rank)]
            assert [line for line in lines if line[:2] == (attempt, rank)] == of_one
    assert lines == whole  # and in the order of their times


async def test_a_page_backwards_and_then_forwards_again_is_the_same(telemetry):
    await fill(telemetry, 7)
    last = await page(telemetry, tail=30)
    before = await page(telemetry, before=last.start, limit=50)
    assert len(before.lines) == 50
    again = await page(telemetry, cursor=before.start, limit=80)
    assert seen(again) == seen(before) + seen(last)


async def test_the_start_has_nothing_in_front(telemetry):
    await fill(telemetry, 3)
    first = await page(telemetry, limit=10)
    assert not any(place.seq for place in first.start.values())
    assert (await page(telemetry, before=first.start, limit=10)).lines == []
    second = await page(telemetry, cursor=first.cursor, limit=10)
    assert seen(await page(telemetry, before=second.start, limit=10)) == seen(first)


async def test_from_a_time_one_reads_both_ways(telemetry):
    await fill(telemetry, 4)
    moment = START + 2000 + 40
    found = await page(telemetry, since=moment, limit=25)
    assert min(line.time for line in found.lines) >= moment
    whole = seen(await page(telemetry, limit=5000))
    lines = await backwards(telemetry, found, lambda: 33)
    assert lines == whole[: len(lines)]
    assert len(lines) > 25


async def test_matches_are_found_backwards(telemetry):
    for seq in range(1, 401):
        text = f"step {seq}" + (" needle" if seq % 50 == 0 else "") + "\n" + "x" * 3000 + "\n"
        await telemetry.store(JOB, 1, logs(log(seq, text)))
    last = await page(telemetry, tail=10)
    found = await page(telemetry, before=last.start, limit=3, grep="NEEDLE")
    assert [line.text for line in found.lines] == ["step 250 needle", "step 300 needle", "step 350 needle"]
    earlier = await page(telemetry, before=found.start, limit=30, grep="needle")
    assert [line.text for line in earlier.lines] == [f"step {seq} needle" for seq in (50, 100, 150, 200)]
    assert not any(place.seq for place in earlier.start.values())


async def test_a_progress_bar_without_a_newline_ends_the_way_back(telemetry):
    await telemetry.store(JOB, 1, logs(log(1, "first\n")))
    for seq in range(2, 30):
        await telemetry.store(JOB, 1, logs(log(seq, b"\r" + b"#" * 50_000, fd="stderr", time=START + 1)))
    await telemetry.store(JOB, 1, logs(log(30, b"\ndone\n", fd="stderr"), log(31, "last\n")))
    found = await page(telemetry, tail=1)
    assert [line.text for line in found.lines] == ["last"]
    lines = await backwards(telemetry, found, lambda: 1)
    assert lines[0][3] == "first"
    assert [line[3] for line in lines][-2:] == ["done", "last"]


async def test_pages_backwards_while_the_run_writes_do_not_move(telemetry):
    for seq in range(1, 101):
        await telemetry.store(JOB, 1, logs(log(seq, f"line {seq}\n")))
    last = await page(telemetry, tail=10, live_attempt=1)
    await telemetry.store(JOB, 1, logs(log(101, "line 101\n")))
    before = await page(telemetry, before=last.start, limit=10, live_attempt=1)
    assert [line.text for line in before.lines] == [f"line {seq}" for seq in range(81, 91)]
    assert await texts(telemetry, cursor=last.cursor, live_attempt=1) == ["line 101"]
    assert len(await read_all(telemetry, live_attempt=1)) == 101
