"""Levels of lines of output as training jobs really write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain.log_levels import LEVELS, LevelReader, at_least, may_be_grave


def levels(text: str) -> list[str | None]:
    reader = LevelReader()
    return [reader.of(line) for line in text.split("\n")]


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("2026-01-31 12:00:00,123 [INFO] trainer: saved", "info"),
        ("INFO 01-31 12:00:00 [core.py:58] loading", "info"),
        ("[2026-01-31 12:00:00] WARNING - slow", "warning"),
        ("(TaskRunner pid=812) WARN engine: preempted", "warning"),
        ("[rank3]: 2026-01-31 ERROR nccl: timeout", "error"),
        ("CRITICAL:root:gone", "error"),
        ("W0131 12:00:00.123 4242 worker.cc:1] slow", "warning"),
        ("E0131 12:00:00.123 4242 worker.cc:1] broken", "error"),
        ('{"time": 1, "level": "warning", "msg": "x"}', "warning"),
        ('{"levelname": "Critical"}', "error"),
        ('time=1 level=debug msg="x"', "debug"),
        ('time=1 level="error" msg="x"', "error"),
        ("/opt/x.py:12: FutureWarning: use y", "warning"),
        ("reward.cc:12: error: expected ;", "error"),
        ("error: no such file", "error"),
        ("Segmentation fault (core dumped)", "error"),
        ("RuntimeError: CUDA error: out of memory", "error"),
        ("torch.OutOfMemoryError: CUDA out of memory", "error"),
        ("KeyboardInterrupt", "error"),
        ("DEBUG start", "debug"),
        ("\x1b[31mERROR\x1b[0m red", "error"),
        ('{"level": "weird"}', None),
        ("{'loss': 0.5, 'error_rate': 0.1}", None),
        ("no errors so far", None),
        ("the INFORMATION desk", None),
        ("x" * 400 + " ERROR", None),
        ("", None),
    ],
)
def test_what_a_line_calls_itself(line: str, level: str | None) -> None:
    assert levels(line) == [level]


def test_a_traceback_is_an_error_to_its_last_line_and_through_its_causes() -> None:
    text = (
        "before\n"
        "Traceback (most recent call last):\n"
        '  File "a.py", line 1, in f\n'
        "    g()\n"
        "    ^^^\n"
        "KeyError: 'x'\n"
        "\n"
        "During handling of the above exception, another exception occurred:\n"
        "\n"
        "Traceback (most recent call last):\n"
        '  File "a.py", line 2, in h\n'
        "ValueError: bad\n"
        "after"
    )
    found = levels(text)
    assert found[0] is found[-1] is None
    assert set(found[1:6]) == set(found[9:12]) == {"error"}


def test_a_traceback_that_workers_print_with_their_names_in_front() -> None:
    text = '[rank1]: Traceback (most recent call last):\n[rank1]:   File "a.py", line 1, in f\n[rank1]:     g()\n[rank1]: OSError: gone\nafter'
    assert levels(text) == ["error"] * 4 + [None]


def test_reading_that_begins_inside_a_traceback_knows_its_files() -> None:
    assert levels('    g()\n  File "a.py", line 1, in f\n    g()\nmine.Odd: bad\nafter') == [None, *["error"] * 3, None]


def test_an_indented_line_belongs_to_the_one_before_it() -> None:
    assert levels("WARNING slow\n  because of this\nplain\n  and this\n\tthis") == [
        "warning",
        "warning",
        None,
        None,
        None,
    ]


def test_the_state_goes_on_where_a_page_ended() -> None:
    first = LevelReader()
    first.of("Traceback (most recent call last):")
    then = LevelReader(first.state)
    assert then.of("    code()") == "error"
    then.forget()
    assert then.of("    code()") is None


def test_a_line_without_a_level_counts_as_information() -> None:
    assert at_least(None, "info")
    assert at_least(None, "debug")
    assert not at_least(None, "warning")
    assert at_least("error", "warning")


@given(st.lists(st.text(max_size=40), max_size=5), st.sampled_from(["", "ERROR x", "a warning: y", "E0101 00:00:00 x"]))
def test_bytes_that_hold_nothing_grave_hold_no_grave_line(lines: list[str], grave: str) -> None:
    text = "\n".join([*(line.replace("\n", "") for line in lines), grave])
    data = text.encode()
    if not may_be_grave(data, 0, len(data)):
        assert not {"warning", "error"} & set(levels(text))
    assert all(level is None or level in LEVELS for level in levels(text))
