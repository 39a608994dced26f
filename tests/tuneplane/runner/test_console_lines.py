"""Numbers in printed lines, in the shapes of transformers 5, verl 0.9.1 and key=value loggers."""

from __future__ import annotations

import math

import pytest

from tuneplane.runner import limits
from tuneplane.runner.tails.console_lines import SHAPES, ConsoleLines

# ProgressCallback.on_log and PrinterCallback of transformers 5.24 format floats; before 5 they were numbers.
NEW = b"{'loss': '1.823', 'grad_norm': 'nan', 'learning_rate': '5e-05', 'rewards/format/mean': '-0.5', 'num': 3, 'epoch': '0.33'}\n"
OLD = b"{'loss': 1.8231, 'grad_norm': nan, 'learning_rate': 5e-05, 'epoch': 0.33}\n"
SWIFT = b"{'loss': '1.5', 'epoch': '0.1', 'global_step/max_steps': '7/100', 'elapsed_time': '12s', 'train_speed(s/it)': '2.4'}\n"
# concat_dict_to_str of verl with numpy 2, alone and as Ray prints it for a task.
VERL = b"step:12 - actor/pg_loss:-0.0023 - actor/kl:np.float64(1e-05) - val/a: b:0.5 - perf/inf:inf - note:text\n"
RAY = b"\x1b[36m(TaskRunner pid=4242)\x1b[0m " + VERL


def read(shape: str, *parts: bytes) -> list[tuple[int, dict[str, float]]]:
    lines = ConsoleLines(shape)
    found = [one for part in parts for one in lines.feed("stdout", part, 9.0)]
    return [(one.step, dict(one.values)) for one in found + list(lines.finish(9.0))]


def test_transformers() -> None:
    ((step, new),) = read("dict", NEW)
    assert math.isnan(new.pop("grad_norm"))
    assert (step, new) == (1, {"loss": 1.823, "learning_rate": 5e-05, "rewards/format/mean": -0.5, "num": 3.0})
    old = read("dict", OLD, b"prose {} and {'no': text}\n", OLD)
    assert [(step, values["loss"]) for step, values in old] == [(1, 1.8231), (2, 1.8231)], "no step: lines are counted"
    lines = ConsoleLines("dict")
    assert [one.epoch for one in lines.feed("stdout", OLD, 9.0)] == [0.33]


def test_a_dict_that_names_its_step() -> None:
    assert read("dict", SWIFT) == [(7, {"loss": 1.5, "train_speed(s/it)": 2.4})]


@pytest.mark.parametrize("line", [VERL, RAY])
def test_verl(line: bytes) -> None:
    values = {"actor/pg_loss": -0.0023, "actor/kl": 1e-05, "val/a: b": 0.5, "perf/inf": math.inf}
    assert read("verl", line) == [(12, values)]


def test_key_value() -> None:
    line = b"INFO 12:00 step=12 loss=0.3, lr=1e-5 eta=3m acc=.5 name=x url=http://a/?b=1\n"
    assert read("key-value", line) == [(12, {"loss": 0.3, "lr": 1e-5, "acc": 0.5})]
    assert read("key-value", b"loss=0.3 without a step\n") == []


def test_a_line_comes_in_pieces_beside_a_progress_bar() -> None:
    pieces = [b" 10%|#   | 1/10\r", NEW[:20], NEW[20:], b"\r 20%|##  | 2/10\r\n"]
    assert [values["loss"] for _, values in read("dict", *pieces)] == [1.823]
    lines = ConsoleLines("verl")
    assert list(lines.feed("stdout", VERL[:30], 9.0)) == []
    assert list(lines.feed("stderr", b"another stream\n", 9.0)) == []
    assert [one.step for one in lines.feed("stdout", VERL[30:], 9.0)] == [12]


def test_the_last_line_without_its_end_counts() -> None:
    assert [step for step, _ in read("verl", VERL[:-1])] == [12]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\r\n",
        b"\xff\x00\n",
        b"step:1 - \n",
        b"step:1 - :5\n",
        b"step: - a:1\n",
        b"step:99999999999999999999 - a:1\n",
        b"{'a': {'b': '1'}}\n",
        b"{'" * 30_000 + b"\n",
        b"'a': '" * 10_000 + b"}\n",
        b"step:1" + b" - a:b" * 10_000 + b" x\n",
        b"=" * 60_000 + b"\n",
        b"step=1 " + b"a=" * 30_000 + b"\n",
        b"x" * 200_000,
        b"step=nan loss=1\n",
    ],
)
def test_garbage_is_no_number(shape: str, data: bytes) -> None:
    read(shape, data)


def test_a_line_beyond_the_bound_is_passed_over() -> None:
    lines = ConsoleLines("verl")
    assert list(lines.feed("stdout", b"step:1 - a:1" + b" " * limits.CONSOLE_LINE_BYTES, 9.0)) == []
    assert list(lines.feed("stdout", b" step:2 - a:1", 9.0)) == []
    assert [one.step for one in lines.feed("stdout", b" step:3 - a:1\n" + VERL, 9.0)] == [12]
