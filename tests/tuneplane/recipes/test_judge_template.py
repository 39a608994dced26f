"""The reward of trl/grpo-judge against a real HTTP server: grades, what goes wrong, and what is said then."""

from __future__ import annotations

import importlib
import socket
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.training.templates.judge_server import MODEL, Judge, answer_in, completion, judge_server
from tuneplane.recipes import index

TOKEN = "secret-of-the-judge"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ModuleType, ModuleType]]:
    """`judge` and `judge_client` of the template; pauses between tries take no time."""
    monkeypatch.syspath_prepend(str(index.CATALOG / "trl/grpo-judge/template"))
    client, judge = importlib.import_module("judge_client"), importlib.import_module("judge")
    monkeypatch.setattr(client.time, "sleep", lambda _seconds: None)
    for name in ("TUNEPLANE_JOB_JUDGE_ENDPOINT", "TUNEPLANE_JOB_JUDGE_TOKEN", "JUDGE_ENDPOINT", "JUDGE_TOKEN", "JUDGE_MODEL"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    yield judge, client
    for name in ("judge", "judge_client"):
        sys.modules.pop(name)


@pytest.fixture
def server() -> Iterator[Judge]:
    with judge_server(TOKEN) as running:
        yield running


@pytest.fixture
def judge(modules: tuple[ModuleType, ModuleType], server: Judge, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setenv("TUNEPLANE_JOB_JUDGE_ENDPOINT", server.url)
    monkeypatch.setenv("TUNEPLANE_JOB_JUDGE_TOKEN", TOKEN)
    made = modules[0].Judge()
    server.asked.clear()
    return made


def chat(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


@pytest.mark.parametrize(
    ("reply", "points"),
    [
        ("Score: 7", 7),
        ("Right, but wordy.\nScore: 7", 7),
        ("**Score:** 8", 8),
        ("score = 9.5 / 10", 9.5),
        ("Score: 10/10.", 10),
        ("Score: 2\nOn a second look:\nScore: 3", 3),
        ("The answer claims\nScore: 10\nbut it is wrong.\nScore: 1\n", 1),
    ],
)
def test_the_last_line_that_is_a_score_counts(
    modules: tuple[ModuleType, ModuleType], reply: str, points: float
) -> None:
    assert modules[0].parse_score(reply) == pytest.approx((points - 1) / 9)


@pytest.mark.parametrize(
    "reply", ["", "7", "Score: 0", "Score: 11", "Score: 100", "Score: seven", "I give a score: 7 because"]
)
def test_no_score_is_made_up(modules: tuple[ModuleType, ModuleType], reply: str) -> None:
    with pytest.raises(modules[1].JudgeError, match="no score"):
        modules[0].parse_score(reply)


def test_answers_are_graded_in_their_order_with_rubric_question_and_reference(judge, modules, server: Judge) -> None:
    answers = ["a", "ab", "abc"]
    prompts = [[{"role": "user", "content": f"question {answer}"}] for answer in answers]
    logged: dict[str, float] = {}
    rewards = judge(
        prompts, [chat(answer) for answer in answers], reference=["x", None, "z"], log_metric=logged.__setitem__
    )
    assert rewards == [pytest.approx(points / 9) for points in (1, 2, 3)]
    assert logged == {"judge/ungraded": 0}
    body = next(body for body in server.asked if answer_in(body) == "abc")
    assert (body["model"], body["temperature"]) == (MODEL, 0)
    system, user = body["messages"]
    assert system == {"role": "system", "content": modules[0].RUBRIC}
    assert "question abc" in user["content"]
    assert "<reference>\nz\n</reference>" in user["content"]
    assert set(server.tokens) == {f"Bearer {TOKEN}"}


def test_an_answer_without_a_grade_has_no_reward_and_the_log_says_why(
    judge, server: Judge, capsys: pytest.CaptureFixture[str]
) -> None:
    server.status_for = {"bad": 400, "busy": 503}
    logged: dict[str, float] = {}
    rewards = judge(["q"] * 4, ["bad", "good", "busy", "bad"], log_metric=logged.__setitem__)
    assert rewards == [None, pytest.approx(3 / 9), None, None]
    assert logged == {"judge/ungraded": 0.75}
    said = capsys.readouterr().out
    assert "3 of 4 answers got no grade, so no reward: HTTP 400 (2×); HTTP 503 (1×)" in said
    assert len([body for body in server.asked if answer_in(body) == "busy"]) == 3  # what may pass is tried again
    assert len([body for body in server.asked if answer_in(body) == "bad"]) == 2  # what will not is not


@pytest.mark.parametrize("first", [503, 429, 408])
def test_a_judge_that_is_busy_is_asked_again(judge, server: Judge, first: int) -> None:
    server.plan = [first, first]
    assert judge(["q"], ["a"]) == [pytest.approx(1 / 9)]
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>Bad gateway</html>", "the reply is no JSON"),
        (b"[]", "the reply is no chat completion"),
        (b'{"choices": []}', "the reply is no chat completion"),
        (b'{"choices": [{"message": "text"}]}', "the reply is no chat completion"),
        (completion(None), "no score from 1 to 10"),
        (completion("I cannot judge that."), "no score from 1 to 10"),
    ],
)
def test_a_reply_that_is_no_grade_is_named(
    judge, server: Judge, body: bytes, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.plan = [body]
    assert judge(["q"], ["a"]) == [None]
    assert reason in capsys.readouterr().out


def test_the_token_follows_no_redirect(judge, server: Judge, capsys: pytest.CaptureFixture[str]) -> None:
    before = len(server.tokens)
    server.plan = [302]
    assert judge(["q"], ["a"]) == [None]
    assert "HTTP 302" in capsys.readouterr().out
    assert len(server.tokens) == before + 1


def test_a_reply_that_never_ends_is_given_up(judge, modules, server: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules[1], "MAX_BYTES", 100)
    server.plan = [completion("x" * 1000)] * 3
    assert judge(["q"], ["a"]) == [None]


def test_a_judge_that_grades_nothing_for_long_ends_the_run(judge, modules, server: Judge) -> None:
    server.status_for = {"": 400}
    for _ in range(modules[0].PATIENCE - 1):
        assert judge(["q"], ["a"]) == [None]
    with pytest.raises(SystemExit, match="graded nothing in 5 batches: HTTP 400"):
        judge(["q"], ["a"])


def test_a_batch_with_a_grade_begins_the_count_anew(judge, modules, server: Judge) -> None:
    server.status_for = {"bad": 400}
    for _ in range(3):
        for answer in ["bad"] * (modules[0].PATIENCE - 1) + ["good"]:
            judge(["q"], [answer])


def test_without_an_endpoint_it_says_who_gives_one(modules) -> None:
    with pytest.raises(SystemExit, match=r"TUNEPLANE_JOB_JUDGE_ENDPOINT is not set.*JUDGE_ENDPOINT=https"):
        modules[0].Judge()


def test_a_judge_of_ones_own(modules, server: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_ENDPOINT", f"{server.url}/chat/completions")
    monkeypatch.setenv("JUDGE_TOKEN", TOKEN)
    monkeypatch.setenv("JUDGE_MODEL", "mine")
    modules[0].Judge()
    assert [body["model"] for body in server.asked] == ["mine"]


def test_the_token_of_ones_own_judge_never_reaches_the_platforms(modules, server: Judge, monkeypatch) -> None:
    monkeypatch.setenv("TUNEPLANE_JOB_JUDGE_ENDPOINT", server.url)
    monkeypatch.setenv("JUDGE_TOKEN", "mine")
    with pytest.raises(SystemExit, match="HTTP 401"):
        modules[0].Judge()
    assert server.tokens == [None]


@pytest.mark.parametrize("endpoint", ["file:///etc/passwd", "judge.example.org"])
def test_an_endpoint_that_is_no_address_is_refused(modules, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setenv("JUDGE_ENDPOINT", endpoint)
    with pytest.raises(SystemExit, match=r"is no http\(s\) address"):
        modules[0].Judge()


def test_a_judge_that_is_not_there_is_named(modules, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:  # bound and not listening: nothing else can take the port meanwhile
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("JUDGE_ENDPOINT", f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
        with pytest.raises(SystemExit, match=r"the judge at http://127\.0\.0\.1:.*Connection refused"):
            modules[0].Judge()


def test_a_judge_whose_replies_hold_no_score_is_refused_at_the_start(modules, server: Judge, monkeypatch) -> None:
    monkeypatch.setenv("TUNEPLANE_JOB_JUDGE_ENDPOINT", server.url)
    monkeypatch.setenv("TUNEPLANE_JOB_JUDGE_TOKEN", TOKEN)
    server.plan = [completion("Hello!")]
    with pytest.raises(SystemExit, match=r"cannot grade: no score from 1 to 10"):
        modules[0].Judge()
