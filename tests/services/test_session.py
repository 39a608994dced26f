"""Services are started once, known by more than a pid, and gone when the run is gone."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.process import ProcessId, ServiceMissingError, spawn, stop, wait_ready
from tests.services.session import Service, ServiceSession

SLEEP = [sys.executable, "-c", "import signal; signal.pause()"]


def start_sleeper(home: Path) -> Service:
    return Service(facts={"home": str(home)}, processes=[spawn(SLEEP, home / "log")])


def wait_gone(process: ProcessId) -> bool:
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    gone = bool(select.select([descriptor], [], [], 60)[0])
    os.close(descriptor)
    return gone or not process.alive()


def test_a_service_is_started_once_and_ended_with_the_session() -> None:
    session = ServiceSession.create()
    first, second = session.get("sleeper", start_sleeper), session.get("sleeper", start_sleeper)
    process = ProcessId(**json.loads((session.folder / "sleeper.json").read_text())["processes"][0])
    assert first == second
    assert process.alive()
    session.close()
    assert not process.alive()
    assert not session.folder.exists()


def test_a_killed_run_leaves_no_service() -> None:
    controller = subprocess.Popen(SLEEP)
    folder = ServiceSession.create().folder
    ServiceSession(folder, controller.pid).get("sleeper", start_sleeper)
    process = ProcessId(**json.loads((folder / "sleeper.json").read_text())["processes"][0])
    guardian = ProcessId.of(int((folder / "guardian.pid").read_text()))
    controller.kill()
    controller.wait()
    assert wait_gone(process)
    assert wait_gone(guardian)
    assert not folder.exists()


def test_a_service_that_cannot_start_says_why_to_everyone_who_asks() -> None:
    def start(home: Path) -> Service:
        log = home / "log"
        process = spawn([sys.executable, "-c", "raise SystemExit('port taken')"], log)
        wait_ready(lambda: False, process, log, seconds=60)
        raise AssertionError("it cannot have come up")

    session = ServiceSession.create()
    for _ in range(2):
        with pytest.raises(ServiceMissingError, match="port taken"):
            session.get("broken", start)
    session.close()


def test_a_reused_pid_is_not_taken_for_the_service(tmp_path: Path) -> None:
    process = spawn(SLEEP, tmp_path / "log")
    stop(ProcessId(process.pid, process.start_time + 1))
    assert process.alive()
    stop(process)
    assert not process.alive()
