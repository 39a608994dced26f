"""`tp job pause | resume | retry`, and what `tp job show` and `ls` say of jobs that wait, rest, are held back or are followed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tuneplane.cli.conftest import Tp
from tests.tuneplane.cli.scripted_console import API, RUN, ScriptedConsole, job
from tests.tuneplane.client.scripted_server import Reply, as_json, problem

NEW, OTHER = "06h2h3tgq73w5xjz", "06h2h3tgq73w5xk0"
POINT = {"run": RUN, "attempt": 1, "path": "checkpoints/checkpoint-20", "step": 20}
PAUSED: dict[str, Any] = {
    "phase": "queued",
    "paused": True,
    "finished_at": None,
    "attempt": 2,
    "resume_point": POINT,
    "attempts": [
        {"n": 1, "phase": "cancelled", "reason": {"code": "paused", "text": "somebody paused the run"}},
        {"n": 2, "phase": "queued", "reason": None, "resumed": POINT},
    ],
}


def answers(console: ScriptedConsole, action: str, *replies: Reply) -> None:
    """What POST /jobs/RUN/{action} answers, one after the other."""
    waiting = list(replies)
    console.on(RUN, f"/{action}", lambda _request: waiting.pop(0) if len(waiting) > 1 else waiting[0])


def sent(console: ScriptedConsole, action: str) -> list[Any]:
    return [request for request in console.server.seen if request.path == f"{API}/jobs/{RUN}/{action}"]


class TestPause:
    def test_a_queued_job_waits_and_a_running_one_stops_first(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.add_job()
        answers(signed_in, "pause", as_json(job(phase="queued", paused=True), 202))
        assert f"{RUN} is paused; tp job resume {RUN} lets it go on" in tp("job", "pause", RUN[:8]).err
        answers(signed_in, "pause", as_json(job(phase="running", paused=True), 202))
        assert "is told to stop and then waits" in tp("job", "pause", RUN).err
        assert tp("job", "pause", RUN, "--json").json["paused"] is True

    def test_a_state_that_does_not_fit_is_an_error(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        answers(
            signed_in, "pause", problem(409, "conflict", f"run {RUN} is over: it failed", hint=f"tp job retry {RUN}")
        )
        answer = tp("job", "pause", RUN, code=1)
        assert "is over: it failed" in answer.err
        assert f"→ tp job retry {RUN}" in answer.err


class TestResume:
    def test_the_paused_job_itself(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        answers(signed_in, "resume", as_json(job() | PAUSED | {"paused": False}, 202))
        answer = tp("job", "resume", RUN)
        assert (answer.out, answer.err) == ("", f"{RUN} goes on from step 20\n")
        (request,) = sent(signed_in, "resume")
        assert (json.loads(request.body), len(request.headers["idempotency-key"])) == ({}, 36)

    def test_a_new_run_prints_its_id(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        made = job(
            NEW,
            phase="queued",
            origin={"id": RUN, "kind": "resume"},
            attempts=[{"n": 1, "phase": "queued", "resumed": POINT}],
        )
        answers(signed_in, "resume", as_json(made, 201))
        answer = tp("job", "resume", RUN, "--from-step", "20")
        assert answer.out == f"{NEW}\n"
        assert f"goes on from step 20 of {RUN}" in answer.err
        assert json.loads(sent(signed_in, "resume")[0].body) == {"from_step": 20}

    def test_a_lost_answer_is_asked_for_again_with_the_same_key(
        self, tp: Tp, signed_in: ScriptedConsole, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tuneplane.client.http._pause", lambda *_args: 0.0)
        answers(signed_in, "retry", problem(503, "unavailable", "away"), as_json(job(NEW, phase="queued"), 201))
        assert tp("job", "retry", RUN).out == f"{NEW}\n"
        first, second = sent(signed_in, "retry")
        assert first.headers["idempotency-key"] == second.headers["idempotency-key"]

    def test_waiting_gives_the_result_of_the_new_run(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        answers(signed_in, "retry", as_json(job(NEW, phase="queued"), 201))
        signed_in.add_job(NEW, phase="failed", reason={"code": "trainer-failed", "text": "it failed"})
        assert "failed: it failed" in tp("job", "retry", RUN, "--wait", code=1).out

    def test_an_incomplete_checkpoint_is_a_refusal(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        refusal = {
            "code": "checkpoint-incomplete",
            "message": "step 30 is cut off",
            "hint": "steps 10, 20",
            "field": "from_step",
        }
        answers(signed_in, "resume", problem(422, "checkpoint-incomplete", "step 30 is cut off", refusals=[refusal]))
        answer = tp("job", "resume", RUN, "--from-step", "30", code=3)
        assert "step 30 is cut off" in answer.err
        assert "→ steps 10, 20" in answer.err

    @pytest.mark.parametrize("step", ["-1", "ten", "1.5", ""])
    def test_an_odd_step_asks_nobody(self, tp: Tp, signed_in: ScriptedConsole, step: str) -> None:
        tp("job", "resume", RUN, "--from-step", step, code=2)
        assert signed_in.server.seen == []


class TestShow:
    def test_the_sweep_that_it_is_a_trial_of(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.add_job(sweep={"id": OTHER, "name": "rates", "trial": 3})
        assert f"{OTHER} (rates), trial 3" in tp("job", "show", RUN).out
        signed_in.add_job(sweep={"id": OTHER, "name": None, "trial": 0})
        assert f"{OTHER}, trial 0" in tp("job", "show", RUN).out
        signed_in.add_job()
        assert "trial" not in tp("job", "show", RUN).out

    def test_the_line_and_who_is_before_it(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        waiting = {
            "kind": "cards",
            "text": "waits for 8 h200",
            "position": 2,
            "ahead": 1,
            "held_by": [
                {"job_id": NEW, "owner": "bob", "gpus": 5, "until": None},
                {"job_id": OTHER, "owner": "ann", "gpus": 1, "until": "2126-01-31T12:00:00Z"},
            ],
            "estimate": None,
        }
        signed_in.add_job(phase="queued", finished_at=None, waiting=waiting)
        text = tp("job", "show", RUN).out
        for words in (
            "waiting: waits for 8 h200",
            "2, 1 run is before it",
            f"{NEW} @bob (5 GPUs), {OTHER} @ann (1 GPU, until 2126-01-31",
            "nobody can say",
            f"tp job cancel {RUN}",
        ):
            assert words in text

    def test_a_paused_job_says_from_where_it_goes_on(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.add_job(**PAUSED)
        text = tp("job", "show", RUN).out
        assert "queued, paused" in text
        assert f"tp job resume {RUN}  go on from step 20" in text
        assert "starts when the job is resumed" in text
        assert "queued, paused" in tp("job", "ls").out

    def test_a_resting_job_says_when_its_next_attempt_begins(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        resting: dict[str, Any] = PAUSED | {"paused": False, "not_before": "2126-01-31T12:00:00Z"}
        signed_in.add_job(**resting)
        text = tp("job", "show", RUN).out
        assert "queued, resting" in text
        assert "starts at 2126-01-31" in text
        assert f"tp job pause {RUN}" in text

    def test_an_unapproved_job_says_who_must_act(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.add_job(phase="queued", approval="pending", finished_at=None)
        text = tp("job", "show", RUN).out
        assert "an administrator has to approve it" in text
        assert f"tp admin approvals approve {RUN}" in text

    def test_a_users_own_mistake_is_mended_in_the_lab_first(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        reason = {
            "code": "bad-config",
            "class": "user",
            "text": "no such key",
            "hint": "mend it",
            "detail": "KeyError: 'x'",
        }
        signed_in.add_job(phase="failed", reason=reason, resume_point=POINT)
        text = tp("job", "show", RUN).out
        assert "KeyError: 'x'" in text
        order = [text.index(words) for words in ("tp job logs", "tp submit first", "tp job resume", "tp job retry")]
        assert order == sorted(order)

    def test_runs_are_linked_both_ways(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.add_job(phase="lost", followers=[{"id": NEW, "kind": "resume", "phase": "running"}])
        text = tp("job", "show", RUN).out
        assert f"followed by  {NEW} (running)" in text
        assert f"tp job show {NEW}" in text
        signed_in.add_job(NEW, phase="running", finished_at=None, origin={"id": RUN, "kind": "resume"})
        assert f"{RUN}, from a checkpoint of it" in tp("job", "show", NEW).out

    def test_a_console_that_says_less_is_understood(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.add_job(phase="queued", finished_at=None, waiting={"text": "waits"})
        assert "waiting: waits" in tp("job", "show", RUN).out
