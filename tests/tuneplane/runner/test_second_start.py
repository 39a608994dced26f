"""A container that is started twice runs its trainer once: the second runner ends as the first one does."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.runner.ingest_server import IngestServer
from tests.tuneplane.runner.job_folder import JobFolder, wait_until
from tuneplane.runner.claim import Claim, take_claim

MakeJob = Callable[..., JobFolder]
STARTED = 'echo started >> "$TUNEPLANE_OUT_DIR/starts"\n'
WAITS = STARTED + 'while [ ! -e "$TUNEPLANE_OUT_DIR/go" ]; do sleep 0.05; done\necho over\nexit 7\n'


def starts(job: JobFolder) -> int:
    path = job.out / "starts"
    return len(path.read_text().splitlines()) if path.exists() else 0


def claim_of(job: JobFolder, rank: int = 0) -> Path:
    return job.spool / f"rank-{rank}" / "claim"


def until_it_waits(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    assert "starts nothing and ends with it" in process.stderr.readline()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _out, err = process.communicate(timeout=60)
    return process.returncode, err


def test_beside_a_living_runner_the_second_waits_and_ends_with_its_code(
    make_job: MakeJob, console: IngestServer
) -> None:
    job = make_job(WAITS)
    first = job.start()
    wait_until(lambda: starts(job) == 1)
    second = job.start()
    until_it_waits(second)
    (job.out / "go").touch()
    assert ended(first)[0] == 7
    told = job.outcome()
    assert ended(second)[0] == 7
    assert starts(job) == 1
    assert job.outcome() == told, "the second runner wrote an outcome"
    assert console.text("stdout") == b"over\n"
    console.assert_no_gaps()


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -SEGV $$", 139)])
def test_after_the_end_it_ends_the_same_way_and_starts_nothing(make_job: MakeJob, script: str, code: int) -> None:
    job = make_job(STARTED + script)
    assert job.run().returncode == code
    told = job.outcome()
    again = job.run()
    assert again.returncode == code
    assert "this attempt has ended before" in again.stderr
    assert starts(job) == 1
    assert job.outcome() == told


def test_a_start_that_failed_fails_the_same_way_again(make_job: MakeJob) -> None:
    job = make_job("echo never")
    job.package.write_bytes(b"tampered")
    assert job.run().returncode == 78
    told = job.outcome()
    assert job.run().returncode == 78
    assert job.outcome() == told


def test_after_a_killed_runner_the_trainer_is_not_started_again(make_job: MakeJob, console: IngestServer) -> None:
    job = make_job(WAITS)
    first = job.start()
    wait_until(lambda: starts(job) == 1)
    first.kill()
    (job.out / "go").touch()  # its trainer is nobody's any more and ends by itself
    first.wait(60)
    code, err = ended(job.start())
    assert code == 78
    assert "TUNEPLANE-BOOTSTRAP: container-lost: an earlier runner (process " in err
    assert starts(job) == 1
    assert not (job.out / "outcome.json").exists()
    sequence = console.seqs("log")
    assert sequence == list(range(1, len(sequence) + 1))


def test_of_many_that_start_at_once_one_starts_the_trainer(make_job: MakeJob) -> None:
    job = make_job(WAITS)
    runners = [job.start() for _ in range(5)]
    wait_until(lambda: starts(job) == 1)
    (job.out / "go").touch()
    assert [ended(each)[0] for each in runners] == [7] * 5
    assert starts(job) == 1


def test_a_signal_to_the_second_stops_the_trainer_once_with_its_grace(make_job: MakeJob, console: IngestServer) -> None:
    job = make_job(
        "trap 'echo told >> $TUNEPLANE_OUT_DIR/told; sleep 0.3; exit 9' TERM\n"
        + STARTED
        + "while :; do sleep 0.05; done\n"
    )
    first = job.start()
    wait_until(lambda: starts(job) == 1)
    second = job.start()
    until_it_waits(second)
    second.send_signal(signal.SIGTERM)
    second.send_signal(signal.SIGTERM)
    assert ended(first)[0] == 9
    assert ended(second)[0] == 9
    assert (job.out / "told").read_text() == "told\n"
    assert job.outcome()["result"] == "cancelled"
    assert console.events("signal") == [{"signal": "SIGTERM"}]


def test_each_machine_has_a_claim_of_its_own(make_job: MakeJob) -> None:
    job = make_job("echo $TUNEPLANE_MACHINE_RANK >> $TUNEPLANE_OUT_DIR/starts", machines=2)
    for rank in ("0", "1", "0", "1"):
        assert job.run(TUNEPLANE_MACHINE_RANK=rank).returncode == 0
    assert (job.out / "starts").read_text() == "0\n1\n"
    assert claim_of(job).exists()
    assert claim_of(job, 1).exists()


def test_a_claim_that_was_never_written_holds_nobody_up(make_job: MakeJob) -> None:
    """Killed between making the file and writing it: nothing was started."""
    job = make_job(STARTED)
    claim_of(job).parent.mkdir()
    claim_of(job).touch()
    assert job.run().returncode == 0
    assert starts(job) == 1


def test_half_a_claim_is_a_claim(make_job: MakeJob) -> None:
    job = make_job(STARTED)
    claim_of(job).parent.mkdir()
    claim_of(job).write_text('{"pid": 1')
    code, err = ended(job.start())
    assert code == 78
    assert "container-lost: an earlier runner ended without an outcome" in err
    assert starts(job) == 0


def test_an_outcome_of_another_attempt_is_none(make_job: MakeJob) -> None:
    job = make_job(STARTED)
    assert job.run().returncode == 0
    other = dict(job.outcome(), attempt=2)
    (job.out / "outcome.json").write_text(json.dumps(other))
    assert job.run().returncode == 78
    assert starts(job) == 1


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a network file system without a lock service."""

    def refuse(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)


def alter(tmp_path: Path, **changes: Any) -> Claim:
    """The claim as a later runner finds it, with these values of the first one changed."""
    path = tmp_path / "rank-0" / "claim"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return take_claim(str(tmp_path), 0)


@pytest.mark.usefixtures("no_locks")
def test_without_locks_whoever_made_the_file_has_the_attempt(tmp_path: Path) -> None:
    first = take_claim(str(tmp_path), 0)
    assert first.mine
    assert first.who["pid"] == os.getpid()
    second = take_claim(str(tmp_path), 0)
    assert not second.mine
    assert second.held_by_another()
    assert not alter(tmp_path, start_time="1").held_by_another(), "the pid is another's by now"
    assert not alter(tmp_path, boot_id="another").held_by_another()
    assert not alter(tmp_path, pid_namespace="pid:[1]").held_by_another()


@pytest.mark.usefixtures("no_locks")
def test_without_locks_an_empty_claim_may_be_about_to_be_written(tmp_path: Path) -> None:
    (tmp_path / "rank-0").mkdir()
    (tmp_path / "rank-0" / "claim").touch()
    claim = take_claim(str(tmp_path), 0)
    assert not claim.mine
    assert not claim.held_by_another()


def test_a_lock_that_fails_for_another_reason_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, operation: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="Input/output"):
        take_claim(str(tmp_path), 0)


def test_a_disk_that_takes_no_claim_is_a_failure_and_leaves_none(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
        with pytest.raises(OSError, match="too large"):
            take_claim(str(tmp_path), 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)
    assert (tmp_path / "rank-0" / "claim").read_bytes() == b""
