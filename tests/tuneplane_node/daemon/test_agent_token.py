"""The secret of console and nodes: what is no secret is refused, and a file is read anew."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tuneplane_node.agent_token import AgentToken
from tuneplane_node.engine import NodeError

GOOD = "0123456789abcdef"


def write(path: Path, text: str) -> Path:
    """As an exchange should: the new file takes the place of the old one."""
    draft = path.with_suffix(".part")
    draft.write_bytes(text.encode())
    return draft.replace(path)


def refusal(**given: object) -> NodeError:
    with pytest.raises(NodeError) as refused:
        AgentToken(**given)  # ty: ignore[invalid-argument-type]
    return refused.value


def test_without_a_token_nothing_is_made() -> None:
    assert refusal().code == "agent-token-missing"
    with pytest.raises(NodeError) as refused:
        AgentToken.load({"TUNEPLANE_AGENT_TOKEN": "", "TUNEPLANE_AGENT_TOKEN_FILE": ""})
    assert refused.value.code == "agent-token-missing"
    assert "openssl rand -hex 32" in refused.value.hint()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("   \t  ", "empty"),
        (f"{GOOD}\n{GOOD}", "line break"),
        (f"{GOOD}\r\n{GOOD}", "line break"),
        (f"{GOOD} {GOOD}", "space"),
        (f"{GOOD}密钥", "ASCII"),
        (f"{GOOD}\x00", "ASCII"),
        ("0123456789abcde", "15 characters"),
        ("x" * 1025, "more than 1024"),
    ],
)
def test_what_is_no_token_is_refused_wherever_it_stands(text: str, why: str, tmp_path: Path) -> None:
    for problem in (refusal(text=text), refusal(file=write(tmp_path / "token", text))):
        assert problem.code == "agent-token-invalid"
        assert why in problem.text()
        assert GOOD not in problem.text() + problem.detail + str(problem)


def test_a_variable_that_ends_in_a_newline_is_refused_and_a_file_is_not(tmp_path: Path) -> None:
    assert refusal(text=GOOD + "\n").code == "agent-token-invalid"
    assert AgentToken(file=write(tmp_path / "token", GOOD + "\r\n\n "))() == GOOD


def test_a_variable_and_a_file_at_once_are_ambiguous(tmp_path: Path) -> None:
    assert "TUNEPLANE_AGENT_TOKEN_FILE" in refusal(text=GOOD, file=write(tmp_path / "token", GOOD)).text()


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    problem = refusal(file=tmp_path / "nothing")
    assert problem.code == "agent-token-unreadable"
    assert str(tmp_path / "nothing") in problem.text()


def test_an_exchanged_file_is_read_anew(tmp_path: Path) -> None:
    token = AgentToken(file=write(tmp_path / "token", GOOD))
    write(tmp_path / "token", "another-" + GOOD)
    assert token() == "another-" + GOOD


def test_a_file_that_has_become_useless_leaves_the_token_before_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "token", GOOD)
    token = AgentToken(file=path)
    with caplog.at_level(logging.WARNING, "tuneplane_node"):
        write(path, "short")
        assert [token() for _ in range(3)] == [GOOD] * 3
        path.unlink()
        assert [token() for _ in range(3)] == [GOOD] * 3
    assert len(caplog.records) == 2
    write(path, GOOD[::-1])
    assert token() == GOOD[::-1]


def test_it_does_not_show_itself(tmp_path: Path) -> None:
    assert GOOD not in repr(AgentToken(GOOD)) + repr(AgentToken(file=write(tmp_path / "token", GOOD)))
