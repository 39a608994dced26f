"""SIGKILL to the runner at random moments of a known stream: what was recorded arrives once, and the rest is named."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from tests.tuneplane.runner.conftest import MakeJob
from tests.tuneplane.runner.ingest_server import IngestServer
from tests.tuneplane.runner.job_folder import JOB
from tuneplane.runner.claim import take_claim
from tuneplane.runner.cursor import Cursor
from tuneplane.runner.leftovers import ship_leftovers
from tuneplane.runner.segments import is_closed
from tuneplane.runner.spool import Spool

# Lines, points and samples with their number, as fast as they go, until the runner is gone.
STREAM = """\
import os, sys, time
from tuneplane.report import log, log_samples
number = 0
while os.getppid() != 1:
    number += 1
    print(number, flush=True)
    log({"loss": number}, step=number)
    if number % 50 == 0:
        log_samples([{"prompt": str(number), "completion": "x"}], step=number)
    time.sleep(0.0005)
"""
SEED = 20261129


@pytest.mark.parametrize("moment", range(4))
def test_what_was_recorded_arrives_once_and_the_rest_is_named(
    make_job: MakeJob, console: IngestServer, moment: int
) -> None:
    draw = random.Random(SEED + moment)
    console.faults.extend(draw.choices(["drop", "reset", "503", ""], k=3))
    wanted = draw.randint(1, 3000)
    job = make_job('exec "$TUNEPLANE_PYTHON" stream.py', files={"stream.py": STREAM})
    process = job.start()
    console.wait_for(lambda: console.text("stdout").count(b"\n") >= wanted)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    console.faults.clear()
    assert ship_leftovers(job.spool, console.url(JOB), console.token, 60).remaining == 0
    console.assert_no_gaps()

    lines = [int(line) for line in console.text("stdout").split(b"\n")[:-1]]
    assert lines == list(range(1, len(lines) + 1))
    steps = [step for record in console.records("metric") for step in record["series"]["train/loss"]["step"]]
    assert steps == list(range(1, len(steps) + 1))
    samples = [item["step"] for record in console.records("sample") for item in record["samples"]]
    assert samples == list(range(50, 50 * len(samples) + 1, 50))
    (killed,) = [data for data in console.events("warning") if data["code"] == "runner-killed"]
    ends = {f"0/{stream}": len(console.seqs(stream)) for stream in ("log", "metric") if console.seqs(stream)}
    assert {key: seq for key, seq in killed["after"].items() if key in ends} == ends


def killed_spool(tmp_path: Path, records: int) -> Spool:
    """What a runner leaves behind that died without a last word: nobody holds its claim any more."""
    claim = take_claim(str(tmp_path), 0)
    spool = Spool(str(tmp_path), 3, 0)
    for _ in range(records):
        spool.append("log", 0, {"time": 1.0, "fd": "stdout", "data": "x\n"})
    spool.flush()
    os.close(claim._fd)  # the lock goes with the process
    return spool


def warnings(console: IngestServer) -> list[str]:
    return [record["data"]["code"] for record in console.records("event", attempt=3)]


def test_it_is_said_once_however_often_leftovers_are_sent(tmp_path: Path, console: IngestServer) -> None:
    killed_spool(tmp_path, 3)
    for _ in range(2):
        assert ship_leftovers(tmp_path, console.url(JOB), console.token, 60, attempt=3).remaining == 0
    assert warnings(console) == ["runner-killed"]
    assert console.seqs("log", attempt=3) == [1, 2, 3]


def test_it_is_said_also_when_the_console_had_everything_that_was_recorded(
    tmp_path: Path, console: IngestServer
) -> None:
    spool = killed_spool(tmp_path, 3)
    cursor = Cursor(spool.directory)
    batch = cursor.next_batch()
    assert batch is not None
    cursor.confirm(batch, {})
    cursor.finish()
    assert ship_leftovers(tmp_path, console.url(JOB), console.token, 60).shipped == 0, "nobody says which attempt it is"
    assert ship_leftovers(tmp_path, console.url(JOB), console.token, 60, attempt=3) == (1, 0)
    assert warnings(console) == ["runner-killed"]


def test_a_living_runners_spool_is_left_to_it(tmp_path: Path, console: IngestServer) -> None:
    """A second writer would give out the same numbers."""
    claim = take_claim(str(tmp_path), 0)
    spool = Spool(str(tmp_path), 3, 0)
    spool.append("log", 0, {"time": 1.0, "fd": "stdout", "data": "x\n"})
    spool.flush()
    assert ship_leftovers(tmp_path, console.url(JOB), console.token, 60, attempt=3) == (1, 0)
    assert not is_closed(spool.directory)
    assert warnings(console) == []
    assert claim.mine


def test_a_runner_that_wrote_all_it_had_was_not_killed(make_job: MakeJob, console: IngestServer) -> None:
    job = make_job("echo only")
    job.start(token=None).communicate(timeout=60)
    assert ship_leftovers(job.spool, console.url(JOB), console.token, 60, attempt=1).remaining == 0
    assert console.text("stdout") == b"only\n"
    assert console.events("warning") == []
