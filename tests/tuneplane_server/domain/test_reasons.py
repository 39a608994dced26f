"""The table itself: complete, showable, and every sign of it seen to work."""

from __future__ import annotations

import importlib
import re
from string import Formatter
from typing import Any

import pytest

from tests.tuneplane_server.domain.reason_lines import LINES
from tuneplane.contract.words import RUNNER_EXIT_PLATFORM
from tuneplane.runner import failures
from tuneplane_node.engine.problems import PROBLEMS
from tuneplane_server.domain import reasons
from tuneplane_server.domain.evidence import read_log
from tuneplane_server.domain.phases import StopCause
from tuneplane_server.domain.reasons import REASONS, ReasonEntry, Sign, fill

parser: Any = importlib.import_module("re._parser")
tokens: Any = importlib.import_module("re._constants")
SIGNS = [
    pytest.param(entry, sign, id=f"{entry.code}-{number}")
    for entry in REASONS.values()
    for number, sign in enumerate(entry.signs)
]
# What fills the texts of reasons that no log gives away: the engine's and the ledger's own values.
GIVEN = {"image", "path", "runtime_id", "seconds", "exit_code", "signal", "node"}


def test_the_table_is_long_and_names_each_reason_once() -> None:
    assert len(REASONS) >= 40
    assert len(reasons._ENTRIES) == len(REASONS)
    texts = [entry.text for entry in REASONS.values()]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("entry", REASONS.values(), ids=REASONS)
def test_a_reason_can_be_shown(entry: ReasonEntry) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", entry.code)
    assert entry.class_ in ("user", "infra", "platform", "policy")
    for sentence in (entry.text, entry.hint):
        assert sentence[0].islower() or sentence.startswith(("GPU", "NaN", "Slurm"))
        assert not sentence.endswith(".")
        assert "\n" not in sentence
        assert "{" not in fill(sentence, {})
    assert entry.anchor == f"reference/reasons#{entry.code}"


@pytest.mark.parametrize("entry", REASONS.values(), ids=REASONS)
def test_every_value_in_a_sentence_is_given_by_every_sign(entry: ReasonEntry) -> None:
    named = {name for sentence in (entry.text, entry.hint) for _, name, _, _ in Formatter().parse(sentence) if name}
    for sign in entry.signs:
        assert named - GIVEN <= set(sign.pattern.groupindex), sign.expression
    if not entry.signs:
        assert named <= GIVEN


def test_a_start_that_took_too_long_names_the_setting_that_gives_it_longer() -> None:
    """Slurm may power machines up first, for as long as its ResumeTimeout says."""
    assert "TUNEPLANE_START_TIMEOUT_SECONDS" in REASONS["start-timeout"].hint


def test_each_way_to_end_means_one_reason() -> None:
    for field in ("signals", "exit_codes"):
        numbers = [number for entry in REASONS.values() for number in getattr(entry, field)]
        assert len(numbers) == len(set(numbers))
    assert {number for entry in REASONS.values() for number in entry.signals} >= {4, 6, 7, 9, 11, 15}
    assert RUNNER_EXIT_PLATFORM not in {number for entry in REASONS.values() for number in entry.exit_codes}


def test_the_codes_that_other_rooms_give_are_in_the_table() -> None:
    runner = {value for name, value in vars(failures).items() if name.isupper() and name != "PREFIX"}
    assert runner <= set(REASONS)
    asked_by_people = {StopCause.CANCEL: "cancelled", StopCause.PAUSE: "paused"}
    assert {asked_by_people.get(cause, str(cause)) for cause in StopCause} <= set(REASONS)


@pytest.mark.parametrize("code", sorted(code for code in PROBLEMS if code.startswith("image-")))
def test_what_the_engine_says_of_images_is_said_with_its_own_code_and_blame(code: str) -> None:
    assert REASONS[code].class_ == PROBLEMS[code].blame
    assert REASONS[code].retry or not PROBLEMS[code].retry


@pytest.mark.parametrize(("entry", "sign"), SIGNS)
def test_a_sign_costs_no_more_than_the_log_is_long(entry: ReasonEntry, sign: Sign) -> None:
    """Every repetition is bounded, none holds another, and a search meets at most one gap of any characters."""
    gaps = repetitions(parser.parse(sign.expression), inside=False)
    assert gaps <= (3 if sign.exception else 1)


def repetitions(parsed: Any, *, inside: bool) -> int:
    """How many gaps of any characters there are; fails at an unbounded or nested repetition."""
    gaps = 0
    for operation, argument in parsed:
        if operation in (tokens.MAX_REPEAT, tokens.MIN_REPEAT):
            _, most, body = argument
            assert most != tokens.MAXREPEAT
            assert most <= 300
            assert most == 1 or not inside
            gaps += sum(item[0] is tokens.ANY for item in body)
            gaps += repetitions(body, inside=most > 1)
        elif operation is tokens.BRANCH:
            gaps += max(repetitions(branch, inside=inside) for branch in argument[1])
        elif operation is tokens.SUBPATTERN:
            gaps += repetitions(argument[-1], inside=inside)
    return gaps


def test_the_check_of_cost_would_see_a_costly_expression() -> None:
    for costly in (r"a.*b", r"(?:a{1,9}){1,9}", r"\d+"):
        with pytest.raises(AssertionError):
            repetitions(parser.parse(costly), inside=False)
    assert repetitions(parser.parse(r".{1,9}(?:a|.{1,9}b)"), inside=False) == 2


@pytest.mark.parametrize(("entry", "sign"), SIGNS)
def test_every_sign_is_met_by_a_line_that_some_program_prints(entry: ReasonEntry, sign: Sign) -> None:
    lines = [line for source in LINES[entry.code].values() for line in source]
    assert any(matches(sign, line) for line in lines), sign.expression


def matches(sign: Sign, line: str) -> bool:
    if not sign.exception:
        return sign.pattern.search(line) is not None
    type_, colon, message = line.partition(":")
    return sign.pattern.match(type_.rpartition(".")[2] + colon + message) is not None


@pytest.mark.parametrize(
    ("code", "line"),
    [
        pytest.param(code, line, id=f"{code}: {line[:40]}")
        for code, sources in LINES.items()
        for lines in sources.values()
        for line in lines
    ],
)
def test_a_line_means_its_reason_and_is_quoted(code: str, line: str) -> None:
    said = read_log(as_printed(line))
    assert said[0].code == code
    assert line.startswith(said[0].quote.rstrip("…")[:60]) or said[0].quote[:60] in line
    assert "{" not in fill(REASONS[code].text, said[0].data | dict.fromkeys(GIVEN, "x"))
    assert "?" not in fill(REASONS[code].text, said[0].data | dict.fromkeys(GIVEN, "x"))


@pytest.mark.parametrize("entry", [entry for entry in REASONS.values() if entry.signs], ids=lambda entry: entry.code)
def test_the_line_shown_in_the_manual_means_its_reason(entry: ReasonEntry) -> None:
    assert read_log(as_printed(entry.seen))[0].code == entry.code


def as_printed(line: str) -> str:
    """An exception has its traceback above it; everything else stands alone."""
    above = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n'
    return f"starting\n{above if re.match(r'([a-z_]\w*\.)*_?[A-Z]\w*(: |$)', line) else ''}{line}\n"


def test_no_line_is_shown_for_what_no_log_gives_away() -> None:
    assert [entry.code for entry in REASONS.values() if entry.seen and not entry.signs] == []


def test_a_reason_that_no_log_gives_away_is_known_by_other_means() -> None:
    """Either an end stands for it, or another room gives it: the engine, the runner, the ledger, an executor."""
    by_log_or_end = {entry.code for entry in REASONS.values() if entry.signs or entry.signals or entry.exit_codes}
    assert set(LINES) <= by_log_or_end
    assert {code for code in by_log_or_end if code not in LINES} == {"interrupted"}
