"""`tp job wait` says why a run waits, as `tp job show` knows it, and says it again only when something is new."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tuneplane.cli.conftest import Tp
from tests.tuneplane.cli.scripted_console import RUN, ScriptedConsole, job
from tests.tuneplane.client.scripted_server import as_json
from tuneplane.cli.job.wait_words import Teller, why_now
from tuneplane.client import changes

CARDS = {"kind": "cards", "text": "needs 8 h200; none free; number 2 in line", "position": 2, "ahead": 1}
UNREACHABLE = {"type": "node-unreachable", "text": "node h7 does not answer", "since": "2026-01-31T12:00:00Z"}


def queued(**changes: Any) -> dict[str, Any]:
    return job() | {"phase": "queued", "finished_at": None} | changes


def slurm(starts: str, estimate: str) -> dict[str, Any]:
    text = f"waits in the queue of Slurm: nothing is free (Resources); number 3 in line; starts at about {starts} UTC"
    waiting = {"kind": "executor", "text": text, "position": 3, "ahead": 2, "estimate": estimate}
    return queued(phase="starting", waiting=waiting, conditions=[{"type": "executor-queue", "text": text}])


def lines(*jobs: dict[str, Any]) -> list[str]:
    said: list[str] = []
    teller = Teller(said.append)
    for item in jobs:
        teller(item)  # ty: ignore[invalid-argument-type]
    return said


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (queued(waiting=CARDS), "queued: needs 8 h200; none free; number 2 in line"),
        (queued(waiting={"kind": "quota", "text": "user ann has 1 of 1 runs at once", "position": 4}),
         "queued: user ann has 1 of 1 runs at once; number 4 in line"),
        (queued(paused=True, waiting={"kind": "paused", "text": "paused", "position": None}), "queued, paused: paused"),
        (job(phase="running", conditions=[UNREACHABLE]), "running: node-unreachable: node h7 does not answer"),
        (job(phase="running"), "running"),
        (queued(waiting=None), "queued"),
    ],
)  # fmt: skip
def test_the_state_and_all_that_explains_it_stand_on_one_line(of: Any, said: str) -> None:
    assert why_now(of) == said


def test_the_executors_own_queue_is_told_once() -> None:
    (line,) = lines(slurm("14:00", "2026-01-31T14:00:00Z"))
    assert line.count("queue of Slurm") == 1
    assert line.startswith(
        f"{RUN} starting, waiting: waits in the queue of Slurm: nothing is free (Resources); number 3"
    )


def test_only_what_is_new_is_said() -> None:
    moved = {**CARDS, "text": "needs 8 h200; none free; number 1 in line", "position": 1, "ahead": 0}
    said = lines(
        queued(waiting=CARDS), queued(waiting=CARDS), queued(waiting=moved), job(phase="running"), job(phase="running"),
        job(phase="running", conditions=[UNREACHABLE]), job(phase="running"), job(phase="succeeded"),
    )  # fmt: skip
    assert [line.partition(" ")[2].partition(":")[0] for line in said] == [
        "queued",
        "queued",
        "running",
        "running",
        "running",
    ]


def test_an_estimate_that_moves_a_little_is_nothing_new() -> None:
    said = lines(
        slurm("14:00", "2026-01-31T14:00:00Z"),
        slurm("14:01", "2026-01-31T14:01:00Z"),
        slurm("14:09", "2026-01-31T14:09:59Z"),
        slurm("15:09", "2026-01-31T15:09:00Z"),
    )
    assert ["14:00" in said[0], "15:09" in said[1], len(said)] == [True, True, 2]


def test_nothing_can_steer_the_terminal() -> None:
    assert "\x1b" not in why_now(queued(waiting={"kind": "next", "text": "\x1b[2J"}))  # ty: ignore[invalid-argument-type]


@pytest.fixture
def short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(changes, "QUIET_SECONDS", 0.01)
    monkeypatch.setattr("tuneplane.client.http._pause", lambda *_args: 0.0)


@pytest.mark.usefixtures("short_polls")
def test_the_command_says_it_beside_its_result(tp: Tp, signed_in: ScriptedConsole) -> None:
    signed_in.on(RUN, "", [as_json(queued(waiting=CARDS)), as_json(job(phase="running")), as_json(job())])
    answer = tp("job", "wait", RUN)
    assert answer.out == f"{RUN} succeeded\n"
    assert answer.err == f"{RUN} queued: needs 8 h200; none free; number 2 in line\n{RUN} running\n"


def test_a_wait_that_ends_early_says_what_it_still_waits_for(tp: Tp, signed_in: ScriptedConsole) -> None:
    signed_in.add_job(phase="queued", finished_at=None, waiting=CARDS)
    assert f"{RUN} is still queued: needs 8 h200" in tp("job", "wait", RUN, "--timeout", "0", code=1).err
    answer = tp("job", "wait", RUN, "--timeout", "0", "--json", code=1)
    assert (answer.json["waiting"]["position"], answer.err) == (2, "")
