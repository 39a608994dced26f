"""What must be true of every run after a storm, judged by what lies on the disk and in the ledger, and by what was hit."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.chaos.bench import Bench, Submitted
from tests.chaos.processes import RUNNER, STEP, SUPERVISOR, TRAINER
from tests.chaos.storm import CABLE, CONTAINER, CONTROLLER, CURRENT, DAEMON, NUMBER, Storm
from tests.chaos.witness import TERMINAL
from tests.e2e.harness import USER
from tuneplane_server.domain.reasons import REASONS as REASON_TABLE

LAB = "lab"  # the client's lab, and so the project
# Given up unseen: it may have gone on for a while, and nobody listens to it.
GIVEN_UP = {"node-lost"}

# Codes with which an attempt may end when this of it was killed. A supervisor may be killed before it has begun the job,
# and what it forks looks like itself until it becomes the job.
ALLOWED = {
    RUNNER: {"killed", "container-lost"},
    TRAINER: {"killed"},
    CONTAINER: {"killed", "container-lost"},
    SUPERVISOR: {"container-lost", "killed"},
    # Of a node. A daemon that is away ends nothing, unless it is away for longer than the console waits for a node.
    DAEMON: {"node-lost"},
    CABLE: {"node-lost"},
    CURRENT: {"node-lost", "killed", "container-lost"},
    # The batch script takes a machine for ended whose srun was killed; Slurm ends what is left of the job, by SIGTERM first.
    STEP: {"killed", "interrupted"},
    # Slurm's controller, killed while it had the attempt: what it had not written down it does not know afterwards.
    CONTROLLER: {
        "slurm-job-lost",  # the submit: no job, and no sign of life
        "killed",  # the start: it has what a node reports of a job killed that it takes for one that waits, or does not know
        "interrupted",  # the start: it makes it again, the node refuses that, and the first one is ended with the job
        "slurm-cancelled",  # the same within seconds of the first start, when nothing shows that it was not somebody
        "launch-failed",  # the start, before the trainer's: no step is given to a job that waits; or a start that the node refuses
        "requeued",  # the start, and the first one was killed without a word before the second one came
    },
    # It forgot a job and gave its number to another one, so that what is done to one on a node is done to both.
    NUMBER: {
        "killed",
        "interrupted",
        "slurm-cancelled",
        "launch-failed",  # a node refuses a number that it has had
    },
}


@dataclass(frozen=True)
class Attempt:
    """`lines`, `points`: the numbers that reached the console; `result` and `ended_at` (Unix seconds): of the runner's
    record, None without one. `launches`: of the machine with most of them. `alive`: first start and last step, monotonic.
    """

    n: int
    phase: str
    reason: str | None
    placed: tuple[str, ...]
    result: str | None
    ended_at: float | None
    launches: int
    lines: list[int]
    points: list[int]
    alive: tuple[float, float] | None = None


def judge(storm: Storm) -> list[str]:
    """Every fault, in words. Asks the running console first, then ends it and reads its database."""
    bench = storm.bench
    jobs = {job["id"]: job for job in storm.witness.look(lambda: bench.api.items("/jobs", limit=100))}
    faults = list(storm.witness.faults)
    expected = {item.run for item in bench.submitted}
    if len(expected) != len(bench.submitted) or expected != set(jobs):
        faults.append(f"submitted {sorted(expected)}, the console has {sorted(jobs)}")
    told = {item.run: list(_attempts_told(bench, item.run)) for item in bench.submitted}
    events = {item.run: list(bench.api.items(f"/jobs/{item.run}/events", limit=200)) for item in bench.submitted}
    faults += _left_behind(bench)
    bench.console.stop()
    with closing(sqlite3.connect(bench.console.storage / "console" / "tuneplane.db")) as ledger:
        faults += _ledger_faults(ledger)
        for item in bench.submitted:
            attempts = list(_attempts(ledger, bench, item.run, told[item.run]))
            faults += [f"{item.run}: {text}" for text in event_faults(events[item.run])]
            faults += [f"{item.run}: {text}" for text in _of_run(storm, item, jobs[item.run], attempts)]
    return faults


# --- evidence ---------------------------------------------------------------------------------------------------------


def _attempts_told(bench: Bench, run: str) -> Iterator[tuple[list[int], list[int]]]:
    """(numbered lines, numbered points) of each attempt, as the API tells them."""
    for attempt in bench.api.get(f"/jobs/{run}")["attempts"]:
        n = attempt["n"]
        texts = [item["text"] for item in bench.api.items(f"/jobs/{run}/logs", attempt=n, limit=1000)]
        lines = [int(text.removeprefix("line ")) for text in texts if text.startswith("line ")]
        series = bench.api.get(f"/jobs/{run}/curves", name="train/loss", attempt=n)["series"].get("train/loss", [])
        yield lines, [step for part in series for step in part["step"]]


def _attempts(
    ledger: sqlite3.Connection, bench: Bench, run: str, told: list[tuple[list[int], list[int]]]
) -> Iterator[Attempt]:
    rows = ledger.execute("select n, phase, reason, placement from job_attempts where job_id = ? order by n", (run,))
    for (n, phase, reason, placement), (lines, points) in zip(rows, told, strict=True):
        out = bench.console.storage / "projects" / USER / LAB / "jobs" / run / "attempts" / str(n) / "out"
        outcome = out / "outcome.json"
        # Of each machine. `alive`: when the first of them began and when the last one made its last step.
        begun = [path.read_text().splitlines() for path in out.glob("launches*")]
        last = [float(path.read_text() or 0) for path in out.glob("alive-*")]
        record = json.loads(outcome.read_text()) if outcome.exists() else {}
        yield Attempt(
            n,
            phase,
            None if reason in (None, "null") else json.loads(reason)["code"],
            tuple(dict.fromkeys(item["node"] for item in json.loads(placement or "null") or ())),
            record.get("result"),
            record.get("finished_at"),
            max(map(len, begun), default=0),
            lines,
            points,
            (min(float(lines[0]) for lines in begun), max(last, default=0.0)) if begun else None,
        )


def _left_behind(bench: Bench) -> list[str]:
    faults = [f"left behind: {item.kind} of {item.job or '?'}: {item.command}" for item in bench.processes()]
    faults += [f"left behind: container of {job}/{attempt}" for _, job, attempt in bench.containers()]
    kept = bench.records()
    # One with a dot was half made or half removed when a console was killed; no job was in it, and it is swept later,
    # with the temporary files it names.
    faults += [f"left behind: record {path.name}" for path in kept if path.name[0] != "."]
    swept_later = [(path / "request.json").read_text() for path in kept if (path / "request.json").exists()]
    # A job's own TMPDIR, or a runner's work directory outside of one.
    for path in (path for folder in bench.temporaries() for path in folder.glob("t[pu]*-*")):
        if not any(str(path) in text for text in swept_later):
            faults.append(f"left behind: {path} with {[item.name for item in path.iterdir()]}")
    return faults


def _ledger_faults(ledger: sqlite3.Connection) -> list[str]:
    faults = [f"still held: {row}" for row in ledger.execute("select node, gpu_index, job_id, attempt from gpu_holds")]
    faults += [f"still held: {row}" for row in ledger.execute("select job_id, attempt, node, cpus from cpu_holds")]
    twice = "select job_id, attempt, kind, count(*) from job_events where not ignored and kind in ('placed', 'launched', 'ended', 'cleaned', 'settled') group by 1, 2, 3 having count(*) > 1"
    return faults + [f"happened twice: {row}" for row in ledger.execute(twice)]


# --- rules ------------------------------------------------------------------------------------------------------------


def event_faults(events: list[dict[str, Any]]) -> Iterator[str]:
    if [item["seq"] for item in events] != list(range(1, len(events) + 1)):
        yield f"its events have gaps: {[item['seq'] for item in events]}"
    cancelled, phase = False, ""
    for item in events:
        if item["from"] != phase:
            yield f"event {item['seq']} {item['kind']} begins in {item['from']}, the one before ended in {phase}"
        if phase in TERMINAL and item["to"] != phase:
            yield f"event {item['seq']} {item['kind']} changes a terminal phase: {phase} to {item['to']}"
        if cancelled and item["kind"] == "retried" and not item["ignored"]:
            yield "an attempt began after the cancel"
        cancelled |= item["kind"] == "cancel" and not item["ignored"]
        phase = item["to"]


def _of_run(storm: Storm, item: Submitted, job: dict[str, Any], attempts: list[Attempt]) -> Iterator[str]:
    last = attempts[-1]
    if job["phase"] not in TERMINAL:
        yield f"stuck in {job['phase']}"
    if last.phase != job["phase"]:
        yield f"its last attempt says {last.phase}, the run {job['phase']}"
    if job["cleanup"] != "confirmed" and last.placed:
        yield f"cleanup is {job['cleanup']}"
    if len(attempts) > 1 + item.wanted.retries:
        yield f"{len(attempts)} attempts, {item.wanted.retries} retries allowed"
    if (
        len(attempts) <= item.wanted.retries
        and job["desired"] == "run"
        and last.reason
        and REASON_TABLE[last.reason].retry
    ):
        yield f"ended for {last.reason} and was not tried again"
    wanted_gone = item.cancel is not None and item.cancel["desired"] == "cancel"
    if wanted_gone != (job["desired"] == "cancel"):
        yield f"desired is {job['desired']}; the answer to the cancel was {item.cancel and item.cancel['desired']}"
    yield from at_once(attempts)
    for attempt in attempts:
        hit = storm.hits_of(item.run, attempt.n, attempt.placed)
        final = attempt is last
        for text in attempt_faults(item, attempt, hit, cancelled=wanted_gone and final, final=final):
            yield f"attempt {attempt.n} (hit: {sorted(hit)}): {text}"


def at_once(attempts: list[Attempt]) -> Iterator[str]:
    """Behind a cut an attempt goes on that was given up, and its node is fenced for that; no other one may."""
    for before, after in pairwise(attempts):
        if before.alive and after.alive and before.alive[1] > after.alive[0] and before.reason not in GIVEN_UP:
            yield f"attempt {after.n} began at {after.alive[0]}, attempt {before.n} was alive at {before.alive[1]}"


def attempt_faults(item: Submitted, attempt: Attempt, hit: set[str], *, cancelled: bool, final: bool) -> Iterator[str]:
    yield from _of_numbers(item, attempt)
    # Cancelled as it was about to start, it may have come to its end before it could be ended.
    overtaken = attempt.phase == "cancelled" and (attempt.ended_at or 0.0) > item.cancel_asked
    overtaken |= attempt.reason in GIVEN_UP  # given up, it may still have come to its end, alone behind a cut
    # The first machine may have ended well when another one was hit.
    overtaken |= len(attempt.placed) > 1 and attempt.phase == "failed" and bool(hit)
    if (attempt.phase == "succeeded") != (attempt.result == "succeeded") and not overtaken:
        yield f"{attempt.phase}, and its runner wrote {attempt.result}"
    if attempt.phase == "succeeded":
        return
    if attempt.phase == "cancelled":
        if not cancelled:
            yield "cancelled, and nobody wanted it"
        return
    if attempt.phase in ("failed", "lost"):
        allowed = set().union(*(ALLOWED[kind] for kind in hit))
        if attempt.reason not in allowed:
            yield f"{attempt.phase} for {attempt.reason}; may be {sorted(allowed)}"
        if hit == {SUPERVISOR} and attempt.launches:
            yield f"{attempt.phase}, though it can run on without its supervisor"
        return
    if final:
        yield f"ended as {attempt.phase}"


def _of_numbers(item: Submitted, attempt: Attempt) -> Iterator[str]:
    if attempt.launches > 1:
        yield f"launched {attempt.launches} times"
    for what, numbers in (("lines", attempt.lines), ("points", attempt.points)):
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"{what} are missing or doubled: {numbers}"
        if attempt.result == "succeeded" and len(numbers) != item.wanted.steps and attempt.reason not in GIVEN_UP:
            yield f"{len(numbers)} {what} of {item.wanted.steps}"
    if attempt.result == "succeeded" and attempt.launches != 1 and item.key:
        yield f"succeeded and launched {attempt.launches} times"
