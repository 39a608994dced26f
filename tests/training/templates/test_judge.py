"""trl/grpo-judge when the judge is not there or fails: real trainings against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.training.templates.harness import Job, Warm
from tests.training.templates.judge_server import Judge, answer_in, judge_server

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def judge() -> Iterator[Judge]:
    with judge_server("token") as running:
        yield running


def test_without_a_judge_the_run_ends_at_once_and_says_what_to_do(warm: Warm, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="TUNEPLANE_JOB_JUDGE_ENDPOINT is not set"):
        warm.run(Job("trl/grpo-judge"), tmp_path)
    assert not (tmp_path / "out/tiny-model").exists()


def test_a_token_that_is_refused_ends_the_run(judge: Judge, warm: Warm, tmp_path: Path) -> None:
    env = {"TUNEPLANE_JOB_JUDGE_ENDPOINT": judge.url, "TUNEPLANE_JOB_JUDGE_TOKEN": "wrong"}
    with pytest.raises(AssertionError, match="HTTP 401"):
        warm.run(Job("trl/grpo-judge", env=env), tmp_path)


def test_answers_without_a_grade_take_no_part_in_the_update(judge: Judge, warm: Warm, tmp_path: Path) -> None:
    """The mean reward is that of the graded answers: a missing grade is not a grade of 0."""
    judge.status_for = {"e": 400}
    env = {"TUNEPLANE_JOB_JUDGE_ENDPOINT": judge.url, "TUNEPLANE_JOB_JUDGE_TOKEN": "token"}
    config = {"max_steps": 1, "save_steps": 1, "beta": 0.0, "num_generations": 4, "max_completion_length": 6}
    done = warm.run(Job("trl/grpo-judge", config, env=env), tmp_path)
    graded = [answer_in(body) for body in judge.asked][1:]  # the first was the trial at the start
    share = sum("e" in answer for answer in graded) / len(graded)
    assert 0 < share < 1
    assert done.curves["train/judge/ungraded"] == [(1, pytest.approx(share))]
    assert f"{share * len(graded):.0f} of {len(graded)} answers got no grade, so no reward: HTTP 400" in done.log
    for sample in done.samples:
        assert ("e" in sample["data"]["completion"]) == (sample["data"]["reward"] is None)
    kept = [sample["data"]["reward"] for sample in done.samples if sample["data"]["reward"] is not None]
    assert done.curves["train/reward"] == [(1, pytest.approx(sum(kept) / len(kept)))]
