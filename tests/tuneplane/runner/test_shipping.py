"""What the shipper does with answers that tell it more than yes or no."""

from __future__ import annotations

import resource
import signal
from email.utils import formatdate
from pathlib import Path
from time import time

import pytest

from tests.tuneplane.runner.ingest_server import IngestServer
from tests.tuneplane.runner.job_folder import JOB
from tuneplane.runner import limits
from tuneplane.runner.backoff import Backoff, parse_retry_after
from tuneplane.runner.cursor import Cursor
from tuneplane.runner.leftovers import ship_leftovers
from tuneplane.runner.shipper import Shipper
from tuneplane.runner.spool import Spool
from tuneplane.runner.wire import IngestClient


def spool_with(tmp_path: Path, count: int) -> Spool:
    spool = Spool(str(tmp_path), 1, 0, max_bytes=64 * 1024)
    for number in range(count):
        spool.append("log", 0, {"time": 1.0, "fd": "stdout", "data": f"{number:03d} {'x' * 100}\n"})
        spool.flush()
    return spool


def shipper_of(spool: Spool, console: IngestServer, said: list[str]) -> Shipper:
    return Shipper(Cursor(spool.directory), IngestClient(console.url(JOB), console.token), 1, said.append)


def test_what_a_restored_console_lacks_is_sent_again(tmp_path: Path, console: IngestServer) -> None:
    """A database put back from a backup acknowledges less than before: what is still on disk fills the hole."""
    spool = spool_with(tmp_path, 20)
    shipper = shipper_of(spool, console, [])
    assert shipper.step() == "sent"
    for seq in range(11, 21):
        del console.stored[(1, 0, "log")][seq]
    spool.append("log", 0, {"time": 1.0, "fd": "stdout", "data": "new"})
    spool.flush()
    while shipper.step() == "sent":
        continue
    assert console.seqs("log") == list(range(1, 22))


def test_a_hole_that_cannot_be_filled_stops_nothing(tmp_path: Path, console: IngestServer) -> None:
    spool = spool_with(tmp_path, 5)
    shipper = shipper_of(spool, console, [])
    console.faults.append("forget")
    assert shipper.step() == "sent"
    shipper._cursor.finish()
    spool.append("log", 0, {"time": 1.0, "fd": "stdout", "data": "new"})
    spool.flush()
    steps = 0
    while shipper.step() == "sent":
        steps += 1
        assert steps < 10, "it sends the same for ever"
    assert 6 in console.seqs("log")


def test_backoff_grows_and_stays_bounded() -> None:
    backoff = Backoff(lambda: 1.0)
    waits = [backoff.next() for _ in range(12)]
    assert waits[:4] == [0.5, 1.0, 2.0, 4.0]
    assert waits[-1] == limits.BACKOFF_MOST
    assert Backoff(lambda: 0.0).next() == 0.25, "half of it is jitter"
    assert 7.0 <= Backoff(lambda: 0.5).next(retry_after=7.0) < 8.0
    backoff.reset()
    assert backoff.next() == 0.5


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 5.0), (" 12 ", 12.0), ("99999", 300.0), ("soon", None), ("", None), (None, None), ("-3", None)],
)
def test_retry_after_in_seconds(text: str, seconds: float) -> None:
    assert parse_retry_after(text) == seconds


def test_retry_after_as_a_date() -> None:
    wait = parse_retry_after(formatdate(time() + 100, usegmt=True))
    assert wait is not None
    assert 90 < wait <= 101
    assert parse_retry_after(formatdate(time() - 100, usegmt=True)) == 0.0


def test_acknowledged_segments_go_while_the_rest_is_still_sent(tmp_path: Path, console: IngestServer) -> None:
    spool = spool_with(tmp_path, 200)
    before = sum(path.stat().st_size for path in Path(spool.directory).glob("*.seg"))
    cursor = Cursor(spool.directory)
    client = IngestClient(console.url(JOB), console.token)
    for _ in range(3):
        batch = cursor.next_batch(max_records=50)
        assert batch is not None
        cursor.confirm(batch, client.send_batch([frame.payload for frame in batch.frames]).body["ack"])
    after = sum(path.stat().st_size for path in Path(spool.directory).glob("*.seg"))
    assert after < 0.75 * before
    assert ship_leftovers(tmp_path, console.url(JOB), console.token, 30).remaining == 0
    assert console.seqs("log") == list(range(1, 201))


def test_leftovers_of_every_machine_are_sent(tmp_path: Path, console: IngestServer) -> None:
    for rank in (0, 1, 2):
        spool = Spool(str(tmp_path), 1, rank)
        spool.append("log", rank, {"time": 1.0, "fd": "stdout", "data": f"rank {rank}\n"})
        spool.close()
    assert ship_leftovers(tmp_path, console.url(JOB), console.token, 30) == (3, 0)
    assert [console.records("log", rank=rank)[0]["data"] for rank in (0, 1, 2)] == ["rank 0\n", "rank 1\n", "rank 2\n"]


def test_a_spool_whose_state_cannot_be_written_is_sent_all_the_same(tmp_path: Path, console: IngestServer) -> None:
    """As when the container's user is not the engine's: records can be read and acknowledgements not be written."""
    spool_with(tmp_path, 200).close()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    said: list[str] = []
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        sent = ship_leftovers(tmp_path, console.url(JOB), console.token, 30, said.append)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)
    assert sent.remaining == 0
    assert console.seqs("log") == list(range(1, 201))
    assert said
    assert ship_leftovers(tmp_path, console.url(JOB), console.token, 30).remaining == 0
    assert console.duplicates == 200


def test_the_spool_has_the_permissions_of_the_attempts_directory(tmp_path: Path) -> None:
    """The engine, which removes what is sent, need not be the user of the container."""
    tmp_path.chmod(0o777)
    spool = spool_with(tmp_path, 1)
    assert Path(spool.directory).stat().st_mode & 0o777 == 0o777


def test_no_spool_is_nothing_left(tmp_path: Path) -> None:
    assert ship_leftovers(tmp_path / "absent", "http://127.0.0.1:9/ingest/v1/jobs/x", "t", 1) == (0, 0)


def test_a_url_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="http"):
        ship_leftovers(tmp_path, "ftp://console", "t", 1)
