"""Reading output: pages, tails, searches, times, odd bytes, quotas (scenarios 11 to 15)."""

from __future__ import annotations

import random

import pytest
from sqlalchemy import func, select

from tests.tuneplane_server.telemetry.build import JOB, START, event, log, logs, page, read_all, texts
from tuneplane_server.domain.cursors import decode_log_cursor, encode_log_cursor
from tuneplane_server.features.telemetry.limits import TelemetryLimits
from tuneplane_server.features.telemetry.log_reader import LogQuery
from tuneplane_server.features.telemetry.records import Batch, LogRecord
from tuneplane_server.features.telemetry.service import TelemetryService
from tuneplane_server.features.telemetry.tables import LogChunkRow
from tuneplane_server.wakeups import Wakeups

REMARK = "[tuneplane: "


async def test_a_progress_bar_of_100_000_updates_in_a_minute_shows_about_one_line_a_second(telemetry, database):
    """Scenario 11: Scenario 11."""
    seq = 0
    for batch in range(100):
        records = []
        for piece in range(10):
            first = batch * 1000 + piece * 100
            bar = b"".join(
                f"\r{n:3.0%} {n + 1}/100000 [{n % 50 * '#':50s}]".encode() for n in range(first, first + 100)
            )
            seq += 1
            records.append(log(seq, bar, fd="stderr", time=START + first * 0.0006))
        await telemetry.store(JOB, 1, logs(*records))
    await telemetry.store(JOB, 1, logs(log(seq + 1, b"\ndone\n", fd="stderr", time=START + 60)))
    lines = await texts(telemetry)
    assert 55 <= len(lines) <= 63
    assert lines[-1] == "done"
    assert "100000/100000" in lines[-2]
    assert all("\r" not in line for line in lines)
    async with database.session() as session:
        stored = await session.scalar(select(func.sum(func.length(LogChunkRow.data))))
        raw = await session.scalar(select(func.sum(LogChunkRow.raw_bytes)))
    assert stored < raw / 10
    assert (await texts(telemetry, limit=7)) == lines
    assert (await page(telemetry, tail=3)).lines[-1].text == "done"


async def test_output_is_kept_up_to_the_quota_with_a_marker_and_an_event_and_the_run_goes_on(database, held_clock):
    """Scenario 12: Scenario 12, small."""
    telemetry = TelemetryService(database, held_clock.clock(), Wakeups(), TelemetryLimits(log_bytes=1000))
    answers = [await telemetry.store(JOB, 1, logs(log(seq, b"x" * 99 + b"\n"))) for seq in range(1, 21)]
    assert all(answer.accepted == 1 for answer in answers)
    assert [answer.quota for answer in answers] == [seq == 11 for seq in range(1, 21)]
    assert [one.event for one in answers[10].events] == ["log-quota"]
    lines = await texts(telemetry)
    assert lines[:10] == ["x" * 99] * 10
    assert len(lines) == 11
    assert lines[10].startswith(REMARK)
    usage = await telemetry.usage(JOB)
    assert (usage.log_bytes, usage.log_dropped_bytes) == (1000, 1000)
    raw = b"".join([part async for part in telemetry.logs.raw(JOB, 1, 0)])
    assert raw.startswith((b"x" * 99 + b"\n") * 10 + b"[tuneplane: ")
    assert len(await telemetry.events(JOB, ["log-quota"])) == 1
    assert (await telemetry.store(JOB, 1, Batch(events=[event(1, "outcome", {"result": "succeeded"})]))).accepted == 1
    await telemetry.close()


async def test_output_goes_on_when_the_quota_is_raised_and_the_hole_is_marked(database, held_clock):
    """Ranks and attempts share the quota of the run; each log says where it has a hole."""

    def with_quota(size: int) -> TelemetryService:
        return TelemetryService(database, held_clock.clock(), Wakeups(), TelemetryLimits(log_bytes=size))

    def line(seq: int, rank: int = 0) -> LogRecord:
        return log(seq, f"{seq:03}".ljust(99, "x") + "\n", rank=rank)

    telemetry = with_quota(500)
    await telemetry.store(JOB, 1, logs(*(line(seq) for seq in range(1, 5)), line(1, rank=1)))
    assert (await telemetry.store(JOB, 1, logs(line(5), line(6)))).quota is True
    assert (await telemetry.store(JOB, 1, logs(log(7, "short\n"), line(2, rank=1)))).quota is False
    for seq, quota in ((8, 500), (9, 400), (10, 450)):  # the same again, and lowered
        telemetry = with_quota(quota)
        assert (await telemetry.store(JOB, 1, logs(log(seq, "short\n")))).quota is False
    telemetry = with_quota(1000)
    await telemetry.store(JOB, 1, logs(line(11), line(12), line(3, rank=1)))
    await telemetry.store(JOB, 1, logs(line(13), line(4, rank=1)))
    lines = await texts(telemetry, rank=0)
    assert [text[:3] for text in lines[:4]] == ["001", "002", "003", "004"]
    assert "passed its quota" in lines[4]
    assert "output is missing here" in lines[5]
    assert [text[:3] for text in lines[6:]] == ["011", "012", "013"]
    others = await texts(telemetry, rank=1)
    assert [text[:3] for text in others if not text.startswith(REMARK)] == ["001", "003", "004"]
    assert others[1].startswith(f"{REMARK}output is missing here")
    assert (await telemetry.usage(JOB)).log_bytes == 1000
    assert (await telemetry.store(JOB, 1, logs(line(14)))).quota is True  # and passed once more
    assert (await telemetry.store(JOB, 1, logs(line(15)))).quota is False
    assert len(await telemetry.events(JOB, ["log-quota"])) == 2
    assert sum(text.startswith(REMARK) for text in await texts(telemetry, rank=0)) == 3
    await telemetry.close()


async def test_a_quota_passed_where_output_was_lost_is_stored_like_any(database, held_clock):
    """Both remarks would stand at the same place."""
    telemetry = TelemetryService(database, held_clock.clock(), Wakeups(), TelemetryLimits(log_bytes=4))
    await telemetry.store(JOB, 1, logs(log(1, "abc\n")))
    await telemetry.store(JOB, 1, Batch(events=[event(1, "gap", {"stream": "log", "records": 1, "after_seq": 1})]))
    answer = await telemetry.store(JOB, 1, logs(log(2, "too much\n")))
    assert (answer.accepted, answer.quota) == (1, True)
    lines = await texts(telemetry)
    assert lines[0] == "abc"
    assert len(lines) == 2
    await telemetry.close()


async def test_gbk_a_lone_ff_an_emoji_split_over_two_reads_and_nul(telemetry):
    """Scenario 13: Scenario 13."""
    parts = ["你好\n".encode("gbk"), b"\xff\n", "🙂".encode()[:2], "🙂".encode()[2:] + b"\n", b"a\0b\n"]
    await telemetry.store(JOB, 1, logs(*(log(seq, part) for seq, part in enumerate(parts, 1))))
    lines = await texts(telemetry)
    assert lines[0] == "你好".encode("gbk").decode("utf-8", "replace")
    assert lines[1:] == ["\ufffd", "🙂", "a\ufffdb"]
    assert b"".join([part async for part in telemetry.logs.raw(JOB, 1, 0)]) == b"".join(parts)


@pytest.mark.parametrize("seed", range(4))
async def test_paging_while_three_ranks_append_misses_and_repeats_nothing(telemetry, seed):
    """Scenario 14: Scenario 14: batches arrive late and in pieces, lines span pieces, descriptors are mixed."""
    dice = random.Random(seed)
    expected: dict[tuple[int, str], list[str]] = {}
    queues: list[list[Batch]] = []
    for rank in (0, 1, 2):
        open_text = {"stdout": "", "stderr": ""}
        records = []
        for seq in range(1, 61):
            fd = dice.choice(["stdout", "stderr"])
            text = "".join(
                dice.choice([f"{rank}.{seq} ", "word ", "\n", "二\n"]) for _word in range(dice.randint(1, 6))
            )
            open_text[fd] += text
            *done, open_text[fd] = open_text[fd].split("\n")
            expected.setdefault((rank, fd), []).extend(done)
            records.append(log(seq, text, rank=rank, fd=fd))
        for fd, text in open_text.items():
            if text:
                expected.setdefault((rank, fd), []).append(text)
        chunks = [records[i : i + 7] for i in range(0, 60, 7)]
        if len(chunks) > 3:  # one batch is overtaken by the next
            at = dice.randrange(len(chunks) - 1)
            chunks[at], chunks[at + 1] = chunks[at + 1], chunks[at]
        queues.append([logs(*chunk) for chunk in chunks])
    seen: list[tuple[int, str, str]] = []
    cursor = None
    while any(queues):
        queue = dice.choice([queue for queue in queues if queue])
        await telemetry.store(JOB, 1, queue.pop(0))
        for _page in range(dice.randint(0, 2)):
            found = await page(telemetry, cursor=cursor, limit=dice.randint(1, 9), live_attempt=1)
            seen += [(line.rank, line.fd, line.text) for line in found.lines]
            cursor = decode_log_cursor(encode_log_cursor(found.cursor))
    seen += await read_all(telemetry, cursor=cursor, limit=9)
    for key, lines in expected.items():
        assert [text for rank, fd, text in seen if (rank, fd) == key] == lines
    assert len(seen) == sum(map(len, expected.values()))


async def test_every_page_size_gives_the_same_lines(telemetry):
    dice = random.Random(5)
    output = "".join(dice.choice(["a", "bc\n", "\rd", "\n", "字", "\x1b[K"]) for _part in range(300)).encode()
    pieces = [output[i : i + 13] for i in range(0, len(output), 13)]
    for start in range(0, len(pieces), 9):
        batch = [log(n + 1, pieces[n], time=START + n * 0.3) for n in range(start, min(start + 9, len(pieces)))]
        await telemetry.store(JOB, 1, logs(*batch))
    whole = await texts(telemetry)
    assert len(whole) > 80
    for limit in (1, 7, 50):
        assert await texts(telemetry, limit=limit) == whole
    unfolded = await texts(telemetry, fold=False)
    assert "\n".join(unfolded).replace("\r", "") == output.decode().rstrip("\n").replace("\r", "")


async def test_the_last_lines_of_a_large_log_are_read_from_its_end(telemetry, database, monkeypatch):
    """Scenario 15: Scenario 15, small: what is read does not depend on what lies before."""
    line = "a line of ordinary output with a number {:08d}\n"
    seq = 0
    for batch in range(12):
        records = []
        for piece in range(16):
            seq += 1
            first = (batch * 16 + piece) * 1000
            records.append(
                log(seq, "".join(line.format(first + i) for i in range(1000))[:60_000].rsplit("\n", 1)[0] + "\n")
            )
        await telemetry.store(JOB, 1, logs(*records))
    read: list[int] = []
    from tuneplane_server.features.telemetry.repo import logs as repo

    original = repo.forward

    async def counted(*arguments):
        chunks = await original(*arguments)
        read.append(sum(len(chunk.data) for chunk in chunks))
        return chunks

    monkeypatch.setattr(repo, "forward", counted)
    found = await page(telemetry, tail=100)
    monkeypatch.undo()
    assert len(found.lines) == 100
    assert found.lines[-1].text == (await texts(telemetry, grep=found.lines[-1].text))[-1]
    assert sum(read) < 2 * 1024 * 1024
    async with database.session() as session:
        stored = await session.scalar(select(func.sum(func.length(LogChunkRow.data))))
    assert sum(read) < stored / 5
    assert found.end
    assert not found.more


@pytest.mark.parametrize("tail", [0, 1, 2, 3, 4, 7, 100])
async def test_a_tail_goes_back_over_attempts_and_its_cursor_follows(telemetry, tail):
    await telemetry.store(JOB, 1, logs(log(1, "one\ntwo\n"), log(1, "other\n", rank=1)))
    await telemetry.store(JOB, 2, logs(log(1, "three\nfo"), log(2, "err\n", fd="stderr")))
    found = await page(telemetry, tail=tail, live_attempt=2)
    every = ["one", "two", "other", "three", "err"]
    assert sorted(line.text for line in found.lines) == sorted(every[-tail:] if tail else [])
    await telemetry.store(JOB, 2, logs(log(3, "ur\nfive\n")))
    await telemetry.store(JOB, 1, logs(log(3, "late\n", rank=1), log(2, "x\n", rank=1)))
    later = await page(telemetry, cursor=found.cursor, live_attempt=2)
    assert [line.text for line in later.lines] == ["x", "late", "four", "five"]
    assert not later.end


async def test_a_tail_that_begins_inside_a_chunk_of_another_descriptor_shows_whole_lines(telemetry):
    """stdout fills chunks, stderr is woven in with a line over several pieces."""
    records = []
    for seq in range(1, 41):
        if seq % 4:
            records.append(log(seq, f"out {seq} {'x' * 9000}\n" * 4))
        else:
            records.append(log(seq, f"e{seq}" + ("\n" if seq % 8 == 0 else "-"), fd="stderr"))
    await telemetry.store(JOB, 1, logs(*records))
    every = await read_all(telemetry)
    errors = [text for _rank, fd, text in every if fd == "stderr"]
    assert errors == ["e4-e8", "e12-e16", "e20-e24", "e28-e32", "e36-e40"]
    for tail in range(1, 20):
        found = await page(telemetry, tail=tail)
        assert [(line.rank, line.fd, line.text) for line in found.lines] == every[-tail:]


async def test_a_tail_of_one_endless_line_shows_what_is_there(telemetry):
    for seq in range(1, 40):
        bar = b"".join(f"\r{seq}-{n:05d}".encode() * 300 for n in range(12))
        await telemetry.store(JOB, 1, logs(log(seq, bar[:60_000])))
    found = await page(telemetry, tail=5, live_attempt=1)
    assert found.lines
    assert found.lines[-1].text.startswith("39-")


async def test_a_search_finds_lines_whatever_their_case_and_pages_over_the_rest(telemetry):
    for seq in range(1, 300):
        await telemetry.store(
            JOB, 1, logs(log(seq, f"step {seq}\nLoss is {seq}\n" if seq % 100 == 0 else f"step {seq}\n"))
        )
    assert await texts(telemetry, grep="lOSS") == ["Loss is 100", "Loss is 200"]
    assert await texts(telemetry, grep="LOSS", limit=1) == ["Loss is 100", "Loss is 200"]
    found = await page(telemetry, grep="loss", tail=1)
    assert [line.text for line in found.lines] == ["Loss is 200"]
    assert (await page(telemetry, grep="nowhere")).end


async def test_a_search_finds_what_is_split_coloured_redrawn_or_not_ascii(telemetry):
    parts = [
        "plain\nnee",
        "dle one\nx\n",
        "nee\x1b[1mdle two\n",
        "old\rneedle three\n",
        "nichts\n针 NEEDLE four\n",
        "ſtraße\n",
    ]
    await telemetry.store(JOB, 1, logs(*(log(seq, part) for seq, part in enumerate(parts, 1))))
    assert await texts(telemetry, grep="needle") == ["needle one", "needle two", "needle three", "针 NEEDLE four"]
    assert await texts(telemetry, grep="needle", limit=1) == await texts(telemetry, grep="needle")
    assert await texts(telemetry, grep="STRASSE") == ["ſtraße"]
    assert await texts(telemetry, grep="针") == ["针 NEEDLE four"]


async def test_lines_since_a_time_begin_with_the_first_that_was_complete_then(telemetry):
    await telemetry.store(JOB, 1, logs(log(1, "a\nbegun "), log(2, "err 1\n", fd="stderr")))
    await telemetry.store(JOB, 1, logs(log(3, "ended\n"), log(4, "c\n")))
    await telemetry.store(JOB, 1, logs(log(5, "d\n", fd="stderr"), log(6, "e\n")))
    assert await texts(telemetry, since=START + 3) == ["begun ended", "c", "d", "e"]
    assert await texts(telemetry, since=START + 3, limit=1) == ["begun ended", "c", "d", "e"]
    assert await texts(telemetry, since=START + 5.5) == ["e"]
    assert await texts(telemetry, since=START + 99) == []
    assert await texts(telemetry, since=START - 99) == ["a", "err 1", "begun ended", "c", "d", "e"]


async def test_output_behind_a_hole_waits_for_it_but_not_for_ever(telemetry, held_clock):
    await telemetry.store(JOB, 1, logs(log(1, "a\n")))
    await telemetry.store(JOB, 1, logs(log(3, "c\n")))
    first = await page(telemetry, live_attempt=1)
    assert [line.text for line in first.lines] == ["a"]
    held_clock.pass_time(61)
    later = await page(telemetry, cursor=first.cursor, live_attempt=1)
    assert [line.fd for line in later.lines] == ["console", "stdout"]
    assert later.lines[0].text.startswith(REMARK)
    assert later.lines[1].text == "c"
    again = await page(telemetry, cursor=later.cursor, live_attempt=1)
    assert again.lines == []
    await telemetry.store(JOB, 1, logs(log(2, "b\n")))
    assert await texts(telemetry) == ["a", "b", "c"]


async def test_lost_records_are_said_at_their_place_once(telemetry):
    gap = {"stream": "log", "records": 7, "bytes": 700, "after_seq": 2}
    await telemetry.store(JOB, 1, logs(log(1, "a\n"), log(2, "b\n")))
    await telemetry.store(JOB, 1, Batch(events=[event(1, "gap", gap), event(2, "gap", gap)]))
    first = await page(telemetry, live_attempt=1)
    await telemetry.store(JOB, 1, logs(log(3, "c\n")))
    rest = await page(telemetry, cursor=first.cursor, live_attempt=1)
    lines = [line.text for line in (*first.lines, *rest.lines)]
    assert lines[:2] == ["a", "b"]
    assert lines[2].startswith("[tuneplane: 7 pieces")
    assert lines[3:] == ["c"]
    for limit in (1, 2, 3):
        assert await texts(telemetry, limit=limit) == lines


async def test_a_gap_names_the_machine_it_is_about(telemetry):
    await telemetry.store(JOB, 1, logs(log(1, "a\n", rank=2), log(2, "b\n", rank=2)))
    gap = {"stream": "log", "rank": 2, "records": 3, "after_seq": 1}
    await telemetry.store(JOB, 1, Batch(events=[event(1, "gap", gap)]))
    assert [(rank, fd) for rank, fd, _text in await read_all(telemetry)] == [
        (2, "stdout"),
        (2, "console"),
        (2, "stdout"),
    ]


@pytest.mark.parametrize(
    "data", [{}, {"stream": "metric", "after_seq": 1, "records": 1}, {"stream": "log", "after_seq": -1, "records": 1},
             {"stream": "log", "after_seq": "1", "records": 1}, {"stream": "log", "after_seq": 1 << 70, "records": 1}]
)  # fmt: skip
async def test_a_gap_event_of_another_shape_is_only_an_event(telemetry, data):
    await telemetry.store(JOB, 1, Batch(events=[event(1, "gap", data)]))
    assert await texts(telemetry) == []


async def test_a_line_left_open_shows_when_the_attempt_is_over_and_not_before(telemetry):
    await telemetry.store(JOB, 1, logs(log(1, "done\nhalf")))
    live = await page(telemetry, live_attempt=1)
    assert [line.text for line in live.lines] == ["done"]
    assert not live.end
    over = await page(telemetry, cursor=live.cursor)
    assert [line.text for line in over.lines] == ["half"]
    assert over.end
    assert (await page(telemetry, cursor=over.cursor)).lines == []


async def test_a_20_mb_line_is_cut_and_its_raw_bytes_are_whole(telemetry):
    piece = b"x" * 65536
    seq = 0
    for _batch in range(20):
        await telemetry.store(JOB, 1, logs(*(log(seq + n, piece) for n in range(1, 17))))
        seq += 16
    await telemetry.store(JOB, 1, logs(log(seq + 1, b"\nnext\n")))
    lines = await texts(telemetry)
    assert len(lines) == 2
    assert lines[0].startswith("x" * 16384 + "…")
    assert lines[1] == "next"
    raw = 0
    async for part in telemetry.logs.raw(JOB, 1, 0):
        raw += len(part)
    assert raw == 20 * 16 * 65536 + len(b"\nnext\n")


async def test_raw_output_of_one_descriptor(telemetry):
    await telemetry.store(
        JOB, 1, logs(log(1, "a\n"), log(2, "e\n", fd="stderr"), log(3, "b\n"), log(4, "r\n", fd="runner"))
    )
    raw = telemetry.logs.raw
    assert b"".join([part async for part in raw(JOB, 1, 0)]) == b"a\ne\nb\nr\n"
    assert b"".join([part async for part in raw(JOB, 1, 0, 1)]) == b"e\n"
    assert b"".join([part async for part in raw(JOB, 2, 0)]) == b""


async def test_filters_by_attempt_and_rank(telemetry):
    await telemetry.store(JOB, 1, logs(log(1, "1.0\n"), log(1, "1.1\n", rank=1)))
    await telemetry.store(JOB, 2, logs(log(1, "2.0\n"), log(1, "2.1\n", rank=1)))
    assert await texts(telemetry, attempt=2) == ["2.0", "2.1"]
    assert await texts(telemetry, rank=1) == ["1.1", "2.1"]
    assert await texts(telemetry, attempt=1, rank=0) == ["1.0"]
    earlier = await telemetry.logs.page(JOB, LogQuery(attempt=1), live_attempt=2)
    assert earlier.end


async def test_a_run_without_output_has_an_end_only_when_it_is_over(telemetry):
    assert not (await page(telemetry, live_attempt=1)).end
    assert (await page(telemetry)).end
    assert (await page(telemetry, tail=10)).end
