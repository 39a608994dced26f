"""The table of everything that can be wrong: whole, worded, and used."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

import tuneplane_node
from tuneplane_node.engine import PROBLEMS, NodeError

SOURCES = "\n".join(
    path.read_text()
    for path in sorted(Path(tuneplane_node.__file__).parent.rglob("*.py"))
    if not path.name.endswith("problems.py")
)


class AnyValue(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return f"<{key}>"


@pytest.mark.parametrize("code", PROBLEMS)
def test_every_problem_is_a_sentence_with_a_hint(code: str) -> None:
    problem = PROBLEMS[code]
    assert re.fullmatch(r"[a-z]+(-[a-z]+)+", code)
    text = string.Formatter().vformat(problem.text, (), AnyValue())
    assert text.rstrip()[-1] in ".:>"
    if problem.level == "error":
        hint = string.Formatter().vformat(problem.hint, (), AnyValue())
        assert hint
        assert set(placeholders(problem.hint)) <= set(placeholders(problem.text)) | {
            "form",
            "runtime_id",
            "version",
            "advice",
        }


def placeholders(text: str) -> list[str]:
    return [name for _before, name, _spec, _conversion in string.Formatter().parse(text) if name]


def test_every_problem_is_told_by_somebody() -> None:
    assert [code for code in PROBLEMS if f'"{code}"' not in SOURCES] == []


def test_a_code_that_is_not_in_the_table_is_a_fault_of_the_program() -> None:
    with pytest.raises(KeyError):
        NodeError("no-such-code")


def test_what_the_engine_said_is_kept_within_bounds() -> None:
    problem = NodeError("image-pull-failed", "x" * 10_000, image="i")
    assert len(problem.detail) == 2000
    assert problem.finding().text == "The image i cannot be pulled."
    assert problem.retry
