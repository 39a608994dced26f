"""Bytes between the pipes and the spool."""

from __future__ import annotations

import threading

import pytest

from tuneplane.runner.output import Chunk, LogChunks, OutputQueue, incomplete_utf8, without_frames

EMOJI = "\U0001f600".encode()


def feed(chunks: LogChunks, *parts: tuple[str, bytes]) -> list[bytes]:
    return [chunk.data for chunk in chunks.feed([Chunk(fd, 1.0, data) for fd, data in parts])]


def test_neighbouring_reads_of_a_stream_become_one_record() -> None:
    parts = (("stdout", b"a"), ("stdout", b"b"), ("stderr", b"c"), ("stdout", b"d"))
    assert feed(LogChunks(), *parts) == [b"ab", b"c", b"d"]


def test_records_have_at_most_64_kib_and_lose_nothing() -> None:
    data = bytes(range(256)) * 1000
    parts = feed(LogChunks(), *[("stdout", data[at : at + 50_000]) for at in range(0, len(data), 50_000)])
    assert b"".join(parts) == data[: len(b"".join(parts))]
    assert max(map(len, parts)) <= 65536
    assert len(data) - len(b"".join(parts)) < 4


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_character_cut_by_a_read_is_put_together(cut: int) -> None:
    chunks = LogChunks()
    assert feed(chunks, ("stdout", b"x" + EMOJI[:cut])) == [b"x"]
    assert feed(chunks, ("stdout", EMOJI[cut:] + b"y")) == [EMOJI + b"y"]


def test_streams_do_not_complete_each_other() -> None:
    chunks = LogChunks()
    assert feed(chunks, ("stdout", EMOJI[:2]), ("stderr", b"err"), ("stdout", EMOJI[2:])) == [b"err", EMOJI]


def test_a_beginning_that_goes_on_with_nothing_is_shown() -> None:
    chunks = LogChunks()
    feed(chunks, ("stdout", EMOJI[:2]))
    assert chunks.release(1.5) == []
    assert [chunk.data for chunk in chunks.release(2.5)] == [EMOJI[:2]]
    assert chunks.release(9.0, all_of_it=True) == []


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0), (b"abc", 0), (EMOJI, 0), (EMOJI[:1], 1), (EMOJI[:2], 2), (EMOJI[:3], 3), (b"\xff", 0), (b"\x80", 0), ("训".encode()[:2], 2), (b"\xc0", 0)],
)  # fmt: skip
def test_incomplete_characters(data: bytes, expected: int) -> None:
    assert incomplete_utf8(data) == expected


def test_a_queue_that_is_full_counts_what_it_drops() -> None:
    queue = OutputQueue(max_bytes=10, patience=0.0)
    for _ in range(5):
        queue.put("stdout", b"12345")
    chunks, lost, size = queue.take()
    assert (len(chunks), lost, size) == (2, 3, 15)
    assert queue.take() == ([], 0, 0)


def test_a_burst_waits_for_the_recorder_that_comes() -> None:
    queue = OutputQueue(max_bytes=10, patience=60.0)
    queue.put("stdout", b"1234567890")
    taken = []
    recorder = threading.Thread(target=lambda: (queue.wait(60.0), taken.append(queue.take())))
    recorder.start()
    queue.put("stdout", b"abc")
    recorder.join()
    chunks, lost, _ = queue.take()
    assert [chunk.data for chunk in taken[0][0] + chunks] == [b"1234567890", b"abc"]
    assert taken[0][1] + lost == 0


def test_the_tail_is_the_end_of_the_trainers_output_without_nul() -> None:
    queue = OutputQueue()
    queue.put("runner", b"not mine\n")
    for number in range(20_000):
        queue.put("stdout", b"line %d\0\n" % number)
    tail = queue.tail()
    assert len(tail) <= 16_000
    assert tail.endswith("line 19999\ufffd\n")
    assert tail.startswith("line ")
    assert "not mine" not in tail


def nccl_stack(rank: int, frames: int) -> str:
    """What the watchdog of a rank prints when another one is gone, as torch 2 prints it."""
    head = (
        f"[rank{rank}]:[E1129 10:00:00.000000000 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=600000) ran for 600042 milliseconds before timing out.\n"
        "Exception raised from checkTimeout at ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:618 (most recent call first):\n"
    )
    frame = "frame #%d: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout(std::optional<std::chrono::duration<long, std::ratio<1l, 1000l> > >) + 0x282 (0x7f00deadbeef in /usr/lib/libtorch_cuda.so)\n"
    return head + "".join(f"[rank{rank}]: " * (number % 2) + frame % number for number in range(frames))


CAUSE = """\
[rank3]: Traceback (most recent call last):
[rank3]:   File "train.py", line 10, in <module>
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.
"""


def test_the_stacks_of_many_ranks_do_not_push_the_cause_out_of_the_tail() -> None:
    queue = OutputQueue(max_bytes=1 << 30)
    said = CAUSE + "".join(nccl_stack(rank, 60) for rank in range(8))
    assert len(said) > 5 * 16_000
    for start in range(0, len(said), 4096):
        queue.put("stderr", said[start : start + 4096].encode())
    queue.put("stderr", b"the last line\n")
    tail = queue.tail()
    assert len(tail) <= 16_000
    assert tail.startswith(CAUSE)
    assert tail.count("Watchdog caught collective operation timeout") == 8
    assert tail.count("[tuneplane: stack frames left out: 60]\n") == 8
    assert tail.endswith("the last line\n")


def test_a_stack_that_fits_stays() -> None:
    queue = OutputQueue()
    said = CAUSE + nccl_stack(0, 40)
    queue.put("stderr", said.encode())
    assert queue.tail() == said


@pytest.mark.parametrize(
    "line",
    [
        "frame #0: c10::Error::Error(c10::SourceLocation) + 0x57 (0x7f in /lib/libc10.so)",
        "[rank12]: frame #60: clone + 0x3f (0x7f in /lib/libc.so.6)",
        "[default0]:frame #3: <unknown function> + 0xd3b75 (0x7f in /lib/libstdc++.so.6)",
        "(WorkerDict pid=4242, ip=10.0.0.7) frame #2: c10d::ProcessGroupNCCL::watchdogHandler() + 0x233",
    ],
)
def test_a_frame_is_known_whatever_a_launcher_puts_before(line: str) -> None:
    assert without_frames(f"a\n{line}\n{line}\nb\n") == "a\n[tuneplane: stack frames left out: 2]\nb\n"
    assert without_frames(line) == "[tuneplane: stack frames left out: 1]\n"


@pytest.mark.parametrize(
    "line", ["frame #1 of the video\n", "key frame 3: ok\n", "x" * 200 + "frame #1: far away\n", "\n", ""]
)
def test_what_is_no_frame_stays(line: str) -> None:
    assert without_frames(line) == line
