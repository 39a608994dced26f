"""Whatever a framework writes and however it comes: nothing crashes, and every complete line or record counts once."""

from __future__ import annotations

import math
import struct
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuneplane.runner.test_event_files import name, record, simple
from tuneplane.runner.tails.console_lines import SHAPES, ConsoleLines
from tuneplane.runner.tails.event_protobuf import BadEventError, read_event
from tuneplane.runner.tails.lines import LineTail
from tuneplane.runner.tails.scalars import NotScalarsError, read_json_line
from tuneplane.runner.tails.tensorboard import TensorboardTail
from tuneplane.runner.tails.tfrecords import RecordTail

lines = st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=8)
# Pieces that the shapes are made of, so that the fuzzer gets past the first look.
words = st.sampled_from(
    ["{'", "'", "': '", ", '", "}", "step:1", " - ", ":", "step=2", " ", "loss", "=", "nan", "1e5", "-0.5", "np.float64(", ")", "/", "5/9", "\r", "\x1b[0m", "é"]
)  # fmt: skip


@settings(deadline=None)
@given(lines, st.data())
def test_lines_that_come_in_pieces_count_once(written: list[bytes], data: st.DataObject) -> None:
    content = b"".join(line + b"\n" for line in written)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        tail, found, at = LineTail(str(path)), [], 0
        while at < len(content):
            size = data.draw(st.integers(1, len(content) - at))
            with path.open("ab") as file:
                file.write(content[at : at + size])
            at += size
            found += tail.lines()
        assert found == [line for line in written if line]
        assert list(tail.lines(final=True)) == []


@settings(deadline=None)
@given(st.lists(st.sampled_from(["write", "cut", "rotate", "remove", "look"]), max_size=20))
def test_no_line_comes_twice_whatever_happens_to_the_file(events: list[str]) -> None:
    """Each line has a number of its own; what is cut or removed unread may be missing."""
    with tempfile.TemporaryDirectory() as folder:
        path, number, found = Path(folder) / "log", 0, []
        tail = LineTail(str(path))
        for event in events:
            if event == "write":
                number += 1
                with path.open("ab") as file:
                    file.write(b"line %d\n" % number)
            elif event == "cut" and path.exists():
                path.write_bytes(b"")
            elif event == "rotate" and path.exists():
                path.rename(f"{path}.{number}")
            elif event == "remove" and path.exists():
                path.unlink()
            else:
                found += tail.lines()
        found += tail.lines(final=True)
    numbers = [int(line.split()[1]) for line in found]
    assert numbers == sorted(set(numbers))


@settings(deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet='{}[]",:1eE-.NaInfity stpda', max_size=80).map(str.encode))
def test_json_lines_of_any_bytes(line: bytes) -> None:
    try:
        found = read_json_line(line, 1.0)
    except NotScalarsError:
        return
    assert found is None or all(isinstance(value, (int, float)) for value in found.values.values())


@settings(deadline=None)
@given(st.sampled_from(sorted(SHAPES)), st.lists(words, max_size=30), st.integers(1, 40))
def test_printed_lines_of_any_words(shape: str, said: list[str], size: int) -> None:
    data = "".join(said).encode() + b"\n"
    whole, pieces = ConsoleLines(shape), ConsoleLines(shape)
    at_once = list(whole.feed("stdout", data, 1.0))
    in_pieces = [one for at in range(0, len(data), size) for one in pieces.feed("stdout", data[at : at + size], 1.0)]
    assert repr(at_once) == repr(in_pieces)
    assert all(math.isfinite(one.step) and one.values for one in at_once)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_events_of_any_bytes(message: bytes) -> None:
    try:
        event = read_event(message)
    except BadEventError:
        return
    assert all(isinstance(value, float) for value in event.values.values())


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_event_files_of_any_bytes(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name(1)).write_bytes(content)
        assert [one for one in TensorboardTail(folder).scalars(1.0) if one is not None] == []


@settings(deadline=None)
@given(st.lists(st.binary(max_size=30), max_size=5), st.integers(0, 10_000), st.integers(1, 255))
def test_a_bit_that_flips_costs_at_most_what_follows_it(payloads: list[bytes], place: int, flip: int) -> None:
    content = bytearray(b"".join(map(record, payloads)))
    if not content:
        return
    place %= len(content)
    content[place] ^= flip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events"
        path.write_bytes(bytes(content))
        found = list(RecordTail(str(path)).records())
    before, size = 0, 0
    for payload in payloads:
        size += len(payload) + 16
        before += size <= place
    assert found[:before] == payloads[:before]
    rest = iter(payloads[before + 1 :])
    assert all(one in rest for one in found[before:]), "what is found behind it was written behind it"


@settings(deadline=None)
@given(st.lists(st.floats(width=32), max_size=6), st.data())
def test_points_of_a_file_that_grows_count_once(written: list[float], data: st.DataObject) -> None:
    content = b"".join(record(simple("a", step, value)) for step, value in enumerate(written))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name(1)
        path.touch()
        tail, found, at = TensorboardTail(folder), [], 0
        while at < len(content):
            size = data.draw(st.integers(1, len(content) - at))
            with path.open("ab") as file:
                file.write(content[at : at + size])
            at += size
            found += [one.values["a"] for one in tail.scalars(1.0) if one is not None]
    assert struct.pack(f"{len(found)}f", *found) == struct.pack(f"{len(written)}f", *written)
