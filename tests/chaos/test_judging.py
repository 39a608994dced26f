"""The judges of the crash test see what they are there to see."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.api import Api
from tests.chaos.bench import Submitted, Wanted
from tests.chaos.processes import RUNNER, SUPERVISOR, TRAINER
from tests.chaos.slurm_traces import Trace, excuses
from tests.chaos.storm import CABLE, CONTROLLER, CURRENT, DAEMON, NUMBER
from tests.chaos.verdict import Attempt, at_once, attempt_faults, event_faults
from tests.chaos.witness import Witness


def seen(*looks: tuple[int, str, str]) -> list[str]:
    witness = Witness(Api("http://127.0.0.1:9", ""))
    for attempt, phase, desired in looks:
        witness.see({"id": "run", "attempt": attempt, "phase": phase, "desired": desired})
    return witness.faults


def test_what_a_witness_lets_pass() -> None:
    assert seen((1, "queued", "run"), (1, "running", "run"), (2, "queued", "run"), (2, "succeeded", "run")) == []
    assert seen((1, "running", "run"), (1, "running", "cancel"), (1, "cancelled", "cancel")) == []


@pytest.mark.parametrize(
    "looks",
    [
        ((1, "succeeded", "run"), (1, "failed", "run")),
        ((1, "failed", "run"), (2, "queued", "run")),
        ((1, "running", "cancel"), (1, "running", "run")),
        ((1, "finishing", "cancel"), (2, "queued", "cancel")),
        ((2, "running", "run"), (1, "running", "run")),
    ],
)
def test_what_a_witness_reports(looks: tuple[tuple[int, str, str], ...]) -> None:
    assert len(seen(*looks)) == 1


def events(*steps: tuple[str, str, str]) -> list[dict[str, Any]]:
    return [
        {"seq": number, "kind": kind, "from": before, "to": after, "ignored": False}
        for number, (kind, before, after) in enumerate(steps, start=1)
    ]


def test_events_follow_from_each_other() -> None:
    good = events(("submitted", "", "queued"), ("placed", "queued", "starting"), ("settled", "starting", "failed"))
    assert list(event_faults(good)) == []
    assert list(event_faults([good[0], good[2]]))
    assert list(event_faults([*good, {**good[1], "seq": 4, "from": "failed"}]))
    retried = events(("submitted", "", "queued"), ("cancel", "queued", "queued"), ("retried", "queued", "queued"))
    assert list(event_faults(retried))


def attempt(**changes: Any) -> Attempt:
    whole: dict[str, Any] = {
        "n": 1,
        "phase": "succeeded",
        "reason": None,
        "placed": ("node",),
        "result": "succeeded",
        "ended_at": 9.0,
        "launches": 1,
        "lines": [1, 2, 3],
        "points": [1, 2, 3],
    }
    return Attempt(**{**whole, **changes})


def faults(seen: Attempt, *hit: str, cancelled: bool = False) -> list[str]:
    item = Submitted("key", "run", Wanted(3, 1.0), cancel_asked=10.0 if cancelled else 0.0)
    return list(attempt_faults(item, seen, set(hit), cancelled=cancelled, final=True))


KILLED: dict[str, Any] = {"phase": "failed", "reason": "killed", "result": None, "lines": [1], "points": []}


def test_what_an_attempt_may_be() -> None:
    assert faults(attempt()) == []
    assert faults(attempt(), RUNNER) == []
    assert faults(attempt(**KILLED), RUNNER) == []
    assert faults(attempt(**{**KILLED, "result": "failed"}), TRAINER) == []
    assert faults(attempt(phase="cancelled", reason="cancelled", result="cancelled", lines=[1]), cancelled=True) == []
    assert faults(attempt(phase="cancelled", reason="cancelled", ended_at=11.0), cancelled=True) == []


@pytest.mark.parametrize(
    ("changes", "hit", "cancelled"),
    [
        ({"lines": [1, 3]}, (), False),
        ({"points": [1, 2, 2, 3]}, (), False),
        ({"lines": [1, 2]}, (), False),
        ({"launches": 2}, (RUNNER,), False),
        ({"launches": 0}, (), False),
        (KILLED, (), False),
        (KILLED, (SUPERVISOR,), False),
        ({**KILLED, "reason": "no-outcome"}, (RUNNER,), False),
        ({"result": None}, (), False),
        ({"phase": "cancelled"}, (), True),
        ({"phase": "cancelled", "result": "cancelled", "lines": [1]}, (), False),
        ({"phase": "running", "result": None}, (), False),
    ],
)
def test_what_an_attempt_may_not_be(changes: dict[str, Any], hit: tuple[str, ...], cancelled: bool) -> None:
    assert faults(attempt(**changes), *hit, cancelled=cancelled)


LOST: dict[str, Any] = {"phase": "lost", "reason": "node-lost", "result": None, "lines": [1], "points": [1]}


def test_what_a_hit_on_a_node_explains() -> None:
    assert faults(attempt(**LOST), CABLE) == faults(attempt(**LOST), DAEMON) == []
    # Behind the cut it came to its end, which nobody heard of any more.
    assert faults(attempt(**{**LOST, "result": "succeeded"}), CABLE) == []
    assert faults(attempt(**{**KILLED, "reason": "container-lost", "phase": "lost"}), CURRENT) == []
    assert faults(attempt(**LOST))
    assert faults(attempt(**KILLED), DAEMON)
    assert faults(attempt(**KILLED), CABLE)


def test_two_attempts_at_once_are_seen_unless_the_first_was_given_up() -> None:
    later = attempt(n=2, alive=(5.0, 9.0))
    assert list(at_once([attempt(**KILLED, alive=(1.0, 4.0)), later])) == []
    assert list(at_once([attempt(**KILLED), later])) == []
    assert list(at_once([attempt(**LOST, alive=(1.0, 6.0)), later])) == []
    assert len(list(at_once([attempt(**KILLED, alive=(1.0, 6.0)), later]))) == 1


def test_slurms_controller_excuses_what_it_had_when_it_was_killed_and_numbers_that_it_gave_twice() -> None:
    traces = [
        Trace("before", 1, 10.0, 20.0, frozenset({1})),
        Trace("during", 1, 15.0, 40.0, frozenset({2, 3})),
        Trace("after", 1, 31.0, 50.0, frozenset({3})),
        Trace("after", 2, 51.0, float("inf"), frozenset({4})),
    ]
    assert excuses(traces, "before", 1, [30.0]) == set()
    assert excuses(traces, "during", 1, [30.0]) == {CONTROLLER, NUMBER}
    assert excuses(traces, "during", 1, []) == {NUMBER}
    assert excuses(traces, "after", 1, [30.0]) == {NUMBER}
    assert excuses(traces, "after", 2, [30.0]) == set()
    assert excuses(traces, "after", 2, [30.0, 60.0]) == {CONTROLLER}
    assert excuses(traces, "never given to Slurm", 1, [30.0]) == set()


def test_a_run_that_slurm_lost_did_not_train_beside_its_next_attempt() -> None:
    lost = attempt(phase="lost", reason="slurm-job-lost", alive=(1.0, 5.0))
    assert list(at_once([lost, attempt(n=2, alive=(4.0, 6.0))]))
    assert list(at_once([lost, attempt(n=2, alive=(5.5, 6.0))])) == []
