"""The token: from its file at each call, and what it says of itself."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tuneplane_server.executors.slurm.rest import tokens
from tuneplane_server.executors.slurm.rest.client import SlurmClient
from tuneplane_server.executors.slurm.rest.tokens import MAX_TOKEN, Token, TokenError, expires_at, issued_at


def jwt(claims: object) -> str:
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"eyJhbGciOiJIUzI1NiJ9.{part}.c2lnbmF0dXJl"


def test_its_times_are_read_unverified() -> None:
    token = jwt({"exp": 1796123221, "iat": 1796036821, "sun": "tester"})
    assert expires_at(token) == datetime(2026, 12, 1, 11, 7, 1, tzinfo=UTC)
    assert issued_at(token) == datetime(2026, 11, 30, 11, 7, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "token",
    ["", "abc", "a.b.c", "a.!!!.c", jwt({}), jwt([]), jwt({"exp": "soon"}), jwt({"exp": 1e300}), jwt({"exp": None})],
)
def test_one_that_says_nothing_has_no_end(token: str) -> None:
    assert expires_at(token) is None


def test_a_file_is_read_anew_and_may_be_what_scontrol_printed(tmp_path: Path) -> None:
    file = tmp_path / "token"
    token = Token(file)
    file.write_text("first\n")
    assert token.read() == "first"
    file.write_text("SLURM_JWT=second\n")
    assert token.read() == "second"


@pytest.mark.parametrize(
    "content", ["", "\n", "SLURM_JWT=\n", "two tokens", "line\nline", "ümlaut", "x" * (MAX_TOKEN + 1)]
)
def test_what_is_no_token_is_told_without_its_content(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(TokenError) as problem:
        Token(file).read()
    assert str(file) in str(problem.value)
    assert "two tokens" not in str(problem.value)
    assert "ümlaut" not in str(problem.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenError, match="No such file"):
        Token(tmp_path / "nothing").read()


def test_a_token_shows_nothing_of_itself() -> None:
    assert "secret" not in repr(Token("secret"))
    assert Token(lambda: ["from", "elsewhere"][0]).read() == "from"


async def test_a_file_system_that_does_not_answer_holds_up_no_other_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, reads, begun, answers = tmp_path / "token", [], threading.Event(), threading.Event()

    def hangs(path: Path) -> str:
        reads.append(path)
        begun.set()
        answers.wait(60)
        return "token"

    monkeypatch.setattr(tokens, "_file", hangs)
    client = SlurmClient("http://127.0.0.1:1", "tester", file, total_seconds=0.2)
    try:
        calls = [client.jobs(), client.health(), client.cancel(7)]
        problems = await asyncio.gather(*calls, return_exceptions=True)
        assert {str(each) for each in problems} == {f"auth: the token file {file} could not be read within 0.2 s"}
        assert await asyncio.to_thread(begun.wait, 60)
        assert reads == [file]
    finally:
        answers.set()
        await client.close()
