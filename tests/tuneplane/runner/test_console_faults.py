"""A console that is away costs nothing but delay; nothing is lost and nothing is doubled (scenarios 17, 21, 33)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.tuneplane.runner.ingest_server import IngestServer
from tests.tuneplane.runner.job_folder import JOB, JobFolder, wait_until
from tuneplane.runner.leftovers import ship_leftovers

MakeJob = Callable[..., JobFolder]
WAITING = "for i in $(seq 1 50); do echo line $i; done; touch $TUNEPLANE_OUT_DIR/up; until [ -e $TUNEPLANE_OUT_DIR/go ]; do sleep 0.02; done; echo last"
LINES = b"".join(b"line %d\n" % number for number in range(1, 51)) + b"last\n"


def quick(capsule: dict[str, Any]) -> None:
    capsule["ingest"]["drain_seconds"] = 0.5


def test_down_at_the_start_and_back_during_the_run(make_job: MakeJob, console: IngestServer) -> None:
    console.stop()
    job = make_job(WAITING)
    process = job.start()
    assert process.stderr is not None
    assert "cannot be reached" in process.stderr.readline()
    console.start()
    console.wait_for(lambda: console.text("stdout").endswith(b"line 50\n"))
    (job.out / "go").touch()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert job.outcome()["spool_drained"]
    assert console.text("stdout") == LINES
    assert "is back" in err
    console.assert_no_gaps()


def test_down_in_the_middle(make_job: MakeJob, console: IngestServer) -> None:
    """scenario 21: the trainer writes on at its own pace while the console is away, and everything arrives in order."""
    job = make_job(WAITING)
    process = job.start()
    console.wait_for(lambda: console.text("stdout").endswith(b"line 50\n"))
    console.stop()
    (job.out / "go").touch()
    wait_until((job.out / "outcome.json").exists)
    console.start()
    process.communicate(timeout=60)
    assert job.outcome()["spool_drained"]
    assert console.text("stdout") == LINES
    console.assert_no_gaps()


def test_away_for_the_whole_run_then_the_engine_sends_the_rest(make_job: MakeJob, console: IngestServer) -> None:
    """scenario 21, where the job ends meanwhile"""
    console.stop()
    job = make_job("echo only; exit 5", change=quick)
    assert job.run().returncode == 5
    outcome = job.outcome()
    assert outcome["result"] == "failed"
    assert not outcome["spool_drained"]
    none = ship_leftovers(job.spool, console.url(JOB), console.token, 0.2)
    assert none.shipped == 0
    assert none.remaining > 0
    console.start()
    sent = ship_leftovers(job.spool, console.url(JOB), console.token, 60)
    assert sent.shipped == none.remaining
    assert sent.remaining == 0
    assert console.text("stdout") == b"only\n"
    assert console.events("outcome")[0]["exit_code"] == 5
    console.assert_no_gaps()
    assert ship_leftovers(job.spool, console.url(JOB), console.token, 60) == (0, 0)


def test_without_a_token_everything_stays_for_the_engine(make_job: MakeJob, console: IngestServer) -> None:
    job = make_job("echo kept")
    process = job.start(token=None)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert not job.outcome()["spool_drained"]
    assert console.batches == 0
    assert ship_leftovers(job.spool, console.url(JOB), console.token, 60).remaining == 0
    assert b"kept" in console.text("stdout")


@pytest.mark.parametrize("fault", ["503", "500", "html", "drop", "reset"])
def test_a_fault_in_an_answer_loses_and_doubles_nothing(make_job: MakeJob, console: IngestServer, fault: str) -> None:
    console.faults.extend([fault, fault])
    job = make_job("for i in $(seq 1 20); do echo line $i; done")
    assert job.run().returncode == 0
    assert job.outcome()["spool_drained"]
    assert console.text("stdout") == b"".join(b"line %d\n" % number for number in range(1, 21))
    console.assert_no_gaps()
    assert not console.faults
    if fault == "drop":
        assert console.duplicates > 0, "the batch that was stored without an answer comes again"


def test_retry_after_is_kept(make_job: MakeJob, console: IngestServer) -> None:
    console.faults.append("503")
    job = make_job("echo hello")
    assert job.run().returncode == 0
    assert console.tried_at[1] - console.tried_at[0] >= 1.0, "the console asked for one second"


def test_a_revoked_token_stops_the_sending_with_one_word(make_job: MakeJob, console: IngestServer) -> None:
    console.denied = True
    job = make_job("echo kept")
    done = job.run()
    assert done.returncode == 0
    assert done.stderr.count("may no longer report") == 1
    assert not job.outcome()["spool_drained"]
    assert console.batches == 0


def test_a_renewed_token_is_used(make_job: MakeJob, console: IngestServer) -> None:
    job = make_job(WAITING)
    process = job.start()
    console.wait_for(lambda: bool(console.heartbeats))
    console.renewed_token = "the-next-one"
    console.wait_for(lambda: console.token == "the-next-one")
    (job.out / "go").touch()
    process.communicate(timeout=60)
    assert job.outcome()["spool_drained"]
    assert console.text("stdout") == LINES


def test_one_record_that_is_refused_does_not_hold_the_others(make_job: MakeJob, console: IngestServer) -> None:
    console.refuse = lambda record: "poison" in str(record.get("data"))
    job = make_job("echo one; sleep 0.5; echo poison >&2; sleep 0.5; echo two", change=None)
    done = job.run()
    assert done.returncode == 0
    assert "is given up" in done.stderr
    assert console.text("stdout") == b"one\ntwo\n"
    assert any("refused by the console" in record["data"] for record in console.records("log"))
    assert console.refused > 1
    console.assert_no_gaps()


def test_a_batch_that_is_too_large_is_halved(make_job: MakeJob, console: IngestServer) -> None:
    console.max_body = 50_000
    code = "import os,random\nfor i in range(40): os.write(1, ('%x' % random.getrandbits(16000)).encode()[:4000])"
    job = make_job('exec "$TUNEPLANE_PYTHON" noise.py', files={"noise.py": code})
    assert job.run().returncode == 0
    assert len(console.text("stdout")) > 140_000
    assert job.outcome()["spool_drained"]
    console.assert_no_gaps()


def test_a_full_spool_never_stops_the_trainer_and_says_what_is_missing(
    make_job: MakeJob, console: IngestServer
) -> None:
    """scenario 21: the spool is bounded."""
    console.stop()
    code = "import sys\nfor i in range(40000): sys.stdout.write('%06d %s\\n' % (i, 'x' * 90))"
    report = "from tuneplane.report import log\nfor step in range(300): log({'loss': step}, step)\n"
    script = '"$TUNEPLANE_PYTHON" noise.py && "$TUNEPLANE_PYTHON" report.py'
    job = make_job(script, files={"noise.py": code, "report.py": report}, change=quick)
    assert job.run(TUNEPLANE_SPOOL_MAX_BYTES="400000").returncode == 0
    used = sum(path.stat().st_size for path in job.spool.rglob("*.seg"))
    assert used <= 400_000
    lost = job.outcome()["lost"]
    assert lost["log"] > 0
    assert "metric" not in lost, "logs must not take the metrics' room"
    console.start()
    assert ship_leftovers(job.spool, console.url(JOB), console.token, 60).remaining == 0
    gap = console.events("gap")[0]
    assert gap["stream"] == "log"
    assert gap["records"] == lost["log"]
    assert gap["bytes"] > 0
    assert gap["after_seq"] == len(console.seqs("log"))
    assert sum(len(record["series"]["train/loss"]["step"]) for record in console.records("metric")) == 300
    console.assert_no_gaps()
