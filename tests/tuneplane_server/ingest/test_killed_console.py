"""A real console is killed (SIGKILL) again and again while a real runner's shipper sends: nothing is missing, nothing doubled."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx2 as httpx
import pytest

from tests.services.ports import free_port
from tests.services.process import ProcessId, spawn, stop, wait_ready
from tests.services.session import ROOT
from tuneplane.contract.words import STREAM_EVENT, STREAM_LOG, STREAM_METRIC, STREAM_SAMPLE
from tuneplane.runner.cursor import Cursor
from tuneplane.runner.shipper import EMPTY, LATER, Shipper
from tuneplane.runner.spool import Spool
from tuneplane.runner.wire import IngestClient
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.features.ingest.tokens import IngestTokens
from tuneplane_server.features.telemetry.log_reader import LogQuery
from tuneplane_server.features.telemetry.repo.samples import SampleFilter
from tuneplane_server.features.telemetry.service import TelemetryService
from tuneplane_server.wakeups import Wakeups

JOB = "0000000000000001"
RECORDS = 400
KILLS = 3


class Console:
    def __init__(self, url: str, folder: Path) -> None:
        self.port = free_port()
        self._folder = folder
        self._env = {
            **os.environ,
            "TUNEPLANE_DATABASE_URL": url,
            "TUNEPLANE_STORAGE_ROOT": str(folder / "root"),
            "TUNEPLANE_RUNTIME": "process",
            "PYTHONPATH": str(ROOT),
        }
        self.process: ProcessId | None = None

    def start(self) -> None:
        log = self._folder / "console.log"
        argv = [sys.executable, "-m", "tests.tuneplane_server.ingest.serve", str(self.port)]
        self.process = spawn(argv, log, self._env)
        wait_ready(self._answers, self.process, log, seconds=60)

    def kill(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        os.waitpid(self.process.pid, 0)

    def stop(self) -> None:
        assert self.process is not None
        stop(self.process)

    def _answers(self) -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{self.port}/healthz").status_code < 600
        return False


def fill(spool: Spool) -> None:
    for n in range(1, RECORDS + 1):
        spool.append(STREAM_LOG, 0, {"time": 1.7e9 + n, "fd": "stdout", "data": f"line {n}\n"})
        series = {"train/loss": {"step": [2 * n, 2 * n + 1], "time": [0.0, 0.0], "value": [n, "NaN"]}}
        spool.append(STREAM_METRIC, 0, {"series": series})
        if n % 5 == 0:
            sample = {"kind": "completion", "step": n, "time": 0.0, "data": {"completion": f"text {n}"}}
            spool.append(STREAM_SAMPLE, 0, {"samples": [sample]})
            spool.append(STREAM_EVENT, 0, {"time": 0.0, "event": "checkpoint", "data": {"step": n}})
    spool.close()


class SmallBatches(Shipper):
    """Many batches, so that the kills find some of them in every state."""

    def step(self, timeout: float = 30.0) -> str:
        self._records = 7
        return super().step(timeout)


@pytest.mark.timeout(240)
async def test_a_console_killed_while_it_is_being_sent_to_ends_up_with_every_record_once(migrated_url, tmp_path):
    def kill(console: Console) -> None:
        console.kill()
        console.start()

    await deliver_in_spite_of(kill, migrated_url, tmp_path)


async def deliver_in_spite_of(kill: Callable[[Console], None], url: str, folder: Path) -> None:
    """A known stream of records is sent to a console on `url`, and `kill` is called at random moments of it."""
    database = Database(url)
    token = await IngestTokens(database, Clock()).issue(JOB, 1)
    spool = Spool(str(folder / "spool"), 1, 0)
    fill(spool)
    console = Console(url, folder)
    console.start()
    client = IngestClient(f"http://127.0.0.1:{console.port}/ingest/v1/jobs/{JOB}", token)
    shipper = SmallBatches(Cursor(spool.directory), client, 1, lambda text: None)
    sent, dice = threading.Event(), random.Random(0)

    def ship() -> None:
        while (outcome := shipper.step()) != EMPTY:
            if outcome == LATER:
                sent.wait(0.05)
        sent.set()

    threading.Thread(target=ship, daemon=True).start()
    try:
        for _kill in range(KILLS):
            goal = shipper.shipped + dice.randint(30, 120)
            while shipper.shipped < goal and not sent.wait(0.01):
                pass
            kill(console)
        assert sent.wait(120)
    finally:
        console.stop()
    await assert_each_once(TelemetryService(database, Clock(), Wakeups()))
    await database.close()


async def assert_each_once(telemetry: TelemetryService) -> None:
    page = await telemetry.logs.page(JOB, LogQuery(limit=10_000), live_attempt=None)
    assert [line.text for line in page.lines] == [f"line {n}" for n in range(1, RECORDS + 1)]
    curves = await telemetry.curves.curves(JOB, ["train/loss"], max_points=10_000, attempt=None, rank=0)
    assert curves["train/loss"][0]["step"] == list(range(2, 2 * RECORDS + 2))
    assert curves["train/loss"][0]["value"][:4] == [1.0, "NaN", 2.0, "NaN"]
    samples = (await telemetry.samples.page(JOB, SampleFilter(), limit=10_000)).items
    assert [item.data["completion"] for item in samples] == [f"text {n}" for n in range(5, RECORDS + 1, 5)]
    events = await telemetry.events(JOB, ["checkpoint"], limit=10_000)
    assert [event.data["step"] for event in reversed(events)] == list(range(5, RECORDS + 1, 5))
    await telemetry.close()
