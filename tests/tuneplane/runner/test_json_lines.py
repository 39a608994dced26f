"""Files with one JSON object a line, in the shapes of verl 0.9.1 and ms-swift 4.6, while something writes them."""

from __future__ import annotations

import errno
import math
import os
from pathlib import Path

import pytest

from tuneplane.runner import limits
from tuneplane.runner.tails.json_lines import JsonLinesTail
from tuneplane.runner.tails.lines import LineTail
from tuneplane.runner.tails.scalars import NotScalarsError, Scalars, read_json_line

# As orjson writes them in FileLogger.log: numpy's floats are numbers, NaN is null.
VERL = (
    b'{"step":12,"data":{"global_seqlen/min":1024,"actor/pg_loss":-0.0023,"actor/kl_loss":null,'
    b'"training/global_step":12,"training/epoch":0,"val-core/openai/gsm8k/reward/mean@1":0.5,"note":"text"}}'
)
# As ProgressCallbackNew.on_log of ms-swift writes them, then what its PrintCallback for Megatron does, then the last line of all.
SWIFT = (
    b'{"loss": 1.8201, "grad_norm": 2.5, "learning_rate": 1e-05, "token_acc": 0.61, "epoch": 0.05, "global_step/max_steps": "5/100", '
    b'"elapsed_time": "12s", "remaining_time": "3m 48s", "memory(GiB)": 10.62, "train_speed(s/it)": 2.4}'
)
MEGATRON = b'{"loss": 1.5, "iteration": "10/100", "elapsed_time": "12s", "memory(GiB)": 40.1, "train_speed(s/it)": 1.2}'
SWIFT_END = (
    b'{"train_dataset": "1000", "last_model_checkpoint": "/out/checkpoint-100", "best_metric": 0.4, "global_step": 100, '
    b'"log_history": [{"loss": 1.8, "step": 5}], "memory": 10.62}'
)


def test_verl() -> None:
    found = read_json_line(VERL, 9.0)
    assert found is not None
    values = dict(found.values)
    assert math.isnan(values.pop("actor/kl_loss")), "orjson writes NaN and infinities as null"
    assert (found.step, found.time, found.epoch) == (12, 9.0, None)
    assert values == {
        "global_seqlen/min": 1024,
        "actor/pg_loss": -0.0023,
        "training/global_step": 12,
        "training/epoch": 0,
        "val-core/openai/gsm8k/reward/mean@1": 0.5,
    }


def test_ms_swift() -> None:
    found = read_json_line(SWIFT, 9.0)
    assert found is not None
    assert (found.step, found.epoch) == (5, 0.05)
    assert found.values == {
        "loss": 1.8201,
        "grad_norm": 2.5,
        "learning_rate": 1e-05,
        "token_acc": 0.61,
        "memory(GiB)": 10.62,
        "train_speed(s/it)": 2.4,
    }
    megatron = read_json_line(MEGATRON, 9.0)
    assert megatron is not None
    assert (megatron.step, megatron.values["loss"]) == (10, 1.5)
    assert read_json_line(SWIFT_END, 9.0) is None


def test_numbers_that_json_lacks_or_that_are_huge() -> None:
    found = read_json_line(
        b'{"step": 1, "a": NaN, "b": -Infinity, "c": '
        + b"9" * 5000
        + b', "d": 99999999999999999999, "e": true, "f": {"g": 1}, "h": null}',
        9.0,
    )
    assert found is not None
    values = dict(found.values)
    assert math.isnan(values.pop("a"))
    assert values == {"b": -math.inf, "c": math.inf, "d": 1e20, "e": 1, "f/g": 1}


@pytest.mark.parametrize(
    "line",
    [
        b"no json",
        b"[1]",
        b'{"loss": 1}',
        b'{"step": "x", "loss": 1}',
        b'{"step": 1e300, "loss": 1}',
        b'{"step": true, "loss": 1}',
        b'{"step": 99999999999999999999, "loss": 1}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"step": 1, "data',
    ],
)
def test_garbage_is_named_as_such(line: bytes) -> None:
    with pytest.raises(NotScalarsError):
        read_json_line(line, 9.0)


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_half_a_line_waits_and_the_last_counts_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = LineTail(str(path))
    assert list(tail.lines()) == []
    append(path, b"one\ntw")
    assert list(tail.lines()) == [b"one"]
    append(path, b"o\n\nthree")
    assert list(tail.lines()) == [b"two"]
    assert list(tail.lines(final=True)) == [b"three"]
    assert list(tail.lines(final=True)) == []


def test_a_file_that_is_cut_or_written_anew_in_place(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = LineTail(str(path))
    path.write_bytes(b"a1\na2\n")
    assert list(tail.lines()) == [b"a1", b"a2"]
    os.truncate(path, 0)
    assert list(tail.lines()) == []
    append(path, b"b1\n")
    assert list(tail.lines()) == [b"b1"]
    path.write_bytes(b"c1 is longer than all that was there before\nc2\n")
    assert list(tail.lines()) == [b"c1 is longer than all that was there before", b"c2"]


def test_a_file_that_is_rotated_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = LineTail(str(path))
    path.write_bytes(b"a1\n")
    assert list(tail.lines()) == [b"a1"]
    append(path, b"a2\na3 without its end")
    path.rename(tmp_path / "log.1")
    path.write_bytes(b"b1\n")
    assert list(tail.lines()) == [b"a2", b"a3 without its end", b"b1"]
    path.unlink()
    assert list(tail.lines()) == []
    path.write_bytes(b"c1\n")
    assert list(tail.lines()) == [b"c1"]


def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    for name in ("pipe", "folder", "nowhere"):
        assert list(LineTail(str(tmp_path / name)).lines(final=True)) == []


def test_a_line_that_does_not_end_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TAIL_READ_BYTES", 100)
    path = tmp_path / "log"
    path.write_bytes(b"a\n" + b"x" * 1000)
    tail = LineTail(str(path))
    assert list(tail.lines()) == [b"a"]
    append(path, b"xxx\nb\n" + b"y" * 99 + b"\n")
    assert list(tail.lines()) == [b"b", b"y" * 99]
    assert tail.too_long == 1


def points(tail: JsonLinesTail, final: bool = False) -> list[Scalars]:
    return [one for one in tail.scalars(9.0, final) if one is not None]


def test_files_are_found_by_pattern_when_they_appear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TAIL_LOOK_SECONDS", 0.0)
    tail = JsonLinesTail(str(tmp_path / "out [1]"), "*/logging.jsonl")
    assert points(tail) == []
    folder = tmp_path / "out [1]" / "v0-20251129"
    folder.mkdir(parents=True)
    (folder / "logging.jsonl").write_bytes(SWIFT + b"\ngarbage\n" + MEGATRON)
    assert [(one.step, one.values["loss"]) for one in points(tail)] == [(5, 1.8201)]
    assert [(one.step, one.values["loss"]) for one in points(tail, final=True)] == [(10, 1.5)]
    assert tail.bad == 1


def test_the_number_of_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TAIL_FILES", 2)
    for number in range(3):
        (tmp_path / f"{number}.jsonl").write_bytes(b'{"step": 1, "n": %d}\n' % number)
    tail = JsonLinesTail(str(tmp_path), "*.jsonl")
    assert points(tail) == [Scalars(1, 9.0, None, {"n": 0}), Scalars(1, 9.0, None, {"n": 1})]
    assert tail.too_many


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_file_that_is_saved_whole_at_each_step_gives_each_line_once(tmp_path: Path, end: bytes) -> None:
    path, found = tmp_path / "log", []
    tail = LineTail(str(path))
    for steps in range(1, 5):
        (tmp_path / "new").write_bytes(b"\n".join(b"line %d" % step for step in range(steps)) + end)
        (tmp_path / "new").replace(path)
        found += tail.lines(final=steps == 4)
    assert found == [b"line 0", b"line 1", b"line 2", b"line 3"]


def test_a_look_in_the_middle_of_a_rewrite_waits_for_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = LineTail(str(path))
    path.write_bytes(b"a1\na2\n")
    assert list(tail.lines()) == [b"a1", b"a2"]
    path.write_bytes(b"a1\n")
    assert list(tail.lines()) == []
    append(path, b"a2\na3\n")
    assert list(tail.lines()) == [b"a3"]
    path.write_bytes(b"a1\n")
    assert list(tail.lines()) == []
    assert list(tail.lines(final=True)) == [b"a1"], "it does not go on any more: another content that begins alike"


def test_a_stale_handle_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    tail = LineTail(str(path))
    path.write_bytes(b"a1\n")
    assert list(tail.lines()) == [b"a1"]
    append(path, b"a2\n")

    def stale(*_: object) -> bytes:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    for call in ("pread", "fstat"):
        with monkeypatch.context() as broken:
            broken.setattr(os, call, stale)
            assert list(tail.lines()) == []
    assert list(tail.lines()) == [b"a2"]
