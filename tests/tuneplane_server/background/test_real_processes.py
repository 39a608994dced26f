"""Faults of real processes under the local executor: what is killed, by whom, and what the ledger says (scenarios 4 to 6).

The console's HTTP side is away the whole time, so the runner spools and what it could not send is told as missing.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane_server.harness import Harness, give_up_soon, jobspec, package_of
from tuneplane_server.executors.local import LocalExecutor
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.settings import load_settings

LOOP = "echo $PPID > $TUNEPLANE_OUT_DIR/runner\nwhile :; do sleep 0.1; done\n"
SECONDS = 60


@pytest.fixture
async def real(migrated_sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Harness]:
    give_up_soon(monkeypatch)
    env = {"TUNEPLANE_STORAGE_ROOT": str(tmp_path / "root"), "TUNEPLANE_DATA_DIR": str(tmp_path / "data")}
    executor = LocalExecutor(load_settings(env | {"TUNEPLANE_RUNTIME": "process"}), "real")
    harness = Harness(migrated_sqlite_url, tmp_path, executor)
    yield harness
    for handle in await executor.owned():
        await executor.cleanup(handle)
    await executor.close()
    await harness.close()


async def until(harness: Harness, job_id: str, is_so: Callable[[JobRow], bool]) -> JobRow:
    """Rounds of the roles until it is so; the time that a handler rests passes at once."""
    async with asyncio.timeout(SECONDS):
        while not is_so(job := await harness.job(job_id)):
            await harness.round()
            harness.time.pass_(30 if job.phase == "finishing" else 0.1)
            await asyncio.sleep(0.05)
        return job


async def started(harness: Harness, who: Principal, script: str, **spec: Any) -> tuple[str, int]:
    """(job id, pid of its runner) once the script runs."""
    digest = await harness.bring_package(who, package_of(script))
    wanted = jobspec(**spec)
    wanted["provenance"]["package_digest"] = digest
    job_id = await harness.submit(who, wanted)
    note = harness.out(await harness.job(job_id)) / "runner"

    def runs(job: JobRow) -> bool:
        return job.phase == "running" and note.exists() and note.read_text().strip() != ""

    await until(harness, job_id, runs)
    return job_id, int(note.read_text())


async def test_the_experiments_environment_reaches_the_trainer_and_lies_on_no_disk(
    real: Harness, tmp_path: Path
) -> None:
    value = 'it\'s "for my eyes only"\n$HOME'
    script = 'printf %s "$MINE" > "$TUNEPLANE_OUT_DIR/mine"\n' + LOOP
    job_id, _runner = await started(real, await real.user(), script, env={"MINE": value})
    written = real.out(await real.job(job_id)) / "mine"
    assert written.read_text() == value
    written.unlink()
    assert files_with(tmp_path / "root", b"for my eyes only") == []
    assert files_with(tmp_path / "data" / "engine", b"for my eyes only") == []


def files_with(folder: Path, text: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


async def test_a_killed_runner_is_no_success_and_nothing_of_it_is_left(real: Harness) -> None:
    job_id, runner = await started(real, await real.user(), LOOP)
    os.kill(runner, signal.SIGKILL)
    job = await until(real, job_id, lambda job: job.cleanup == "confirmed" and job.phase == "failed")
    assert job.reason is not None
    assert job.reason["code"] == "killed"
    assert await real.executor.owned() == []


async def test_a_killed_runner_is_followed_by_another_when_the_job_allows_it(real: Harness) -> None:
    once = 'echo $PPID > $TUNEPLANE_OUT_DIR/runner\n[ "$TUNEPLANE_ATTEMPT" = 2 ] || while :; do sleep 0.1; done\n'
    job_id, runner = await started(real, await real.user(), once, limits={"retries": {"infra": 1}})
    os.kill(runner, signal.SIGKILL)
    job = await until(real, job_id, lambda job: job.finished_at is not None)
    assert (job.phase, job.attempt) == ("succeeded", 2)
    settled = next(event for event in await real.events(job_id) if event.kind == "settled")
    assert settled.data["missing_records"] > 0


async def test_a_runner_told_to_stop_by_somebody_else_ends_interrupted(real: Harness) -> None:
    job_id, runner = await started(real, await real.user(), LOOP)
    os.kill(runner, signal.SIGTERM)
    job = await until(real, job_id, lambda job: job.finished_at is not None)
    assert (job.phase, job.reason and job.reason["code"]) == ("failed", "interrupted")


async def test_a_run_whose_record_is_gone_is_lost(real: Harness) -> None:
    job_id, _runner = await started(real, await real.user(), LOOP)
    job = await real.job(job_id)
    assert job.handle is not None
    (handle,) = await real.executor.owned()
    await real.executor.cleanup(handle)  # somebody removes it behind the ledger's back
    job = await until(real, job_id, lambda job: job.finished_at is not None)
    assert (job.phase, job.reason and job.reason["code"]) == ("lost", "container-lost")


async def test_a_console_that_stops_leaves_the_run_running_and_finds_it_again(real: Harness) -> None:
    job_id, runner = await started(real, await real.user(), LOOP)
    await real.restart()
    await real.round()
    os.kill(runner, 0)  # still there
    job = await real.job(job_id)
    assert (job.phase, job.attempt) == ("running", 1)
    assert (await real.kinds(job_id)).count("adopted") == 1
    await real.services.jobs.cancel(await _owner(real), job_id)
    assert (await until(real, job_id, lambda job: job.finished_at is not None)).phase == "cancelled"


async def _owner(harness: Harness) -> Principal:
    row = await harness.services.accounts.user("ada")
    return Principal(row.id, row.username, row.admin, frozenset({"read", "write"}))
