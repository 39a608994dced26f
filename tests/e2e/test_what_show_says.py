"""What `tp job show` tells a new user of a job that waits, failed, was lost, is paused, rests or is unapproved, in both languages,
from a real console. The texts are kept in `shown/<language>/<state>.txt`, with ids, times and lengths replaced by words.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.harness import Client, Console, wait_until
from tests.e2e.trainers import counting, submit_counting

pytestmark = pytest.mark.timeout(300)
TEXTS = Path(__file__).with_name("shown")
LANGUAGES = ("en", "zh-Hans")
RANK_LOST = "RuntimeError: NCCL error: remote process exited or there was a network error"
_WORDS = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "TIME"),
    (re.compile(r"(?:\d{4}-\d\d-\d\d )?\d\d:\d\d UTC"), "CLOCK"),
    (re.compile(r"\b\d+ (?:s|min|秒|分钟)(?!\w)"), "LONG"),
    (re.compile(r" {2,}"), "  "),  # columns are as wide as what stands in them
)


class Stage:
    """A console with jobs in every state, each made once."""

    def __init__(self, client: Client, control: Path) -> None:
        self.client, self.control = client, control
        self.names: dict[str, str] = {}
        counting(client, "count")

    def submit(self, name: str, *options: str, profile: str = "cpu", **numbers: int) -> str:
        run = submit_counting(self.client, "count", self.control, *options, profile=profile, **numbers)
        self.names[run] = name
        return run

    def hold(self, name: str, step: int, *options: str, **more: str | int) -> str:
        """A run that has come to `step` and stays there."""
        run = self.submit(name, *options, HOLD=step, **more)  # ty: ignore[invalid-argument-type]
        wait_until(f"{name} is at step {step}", lambda: f"step {step}" in self.client.printed(run))
        return run

    def check(self, state: str, run: str) -> None:
        """Compare what is shown in both languages with what is kept."""
        readers = [self.client.with_env(TUNEPLANE_LANG=language) for language in LANGUAGES]
        with ThreadPoolExecutor(len(readers)) as pool:  # at once: a rest is over after a while
            answers = pool.map(lambda reader: reader.tp("job", "show", run).out, readers)
        for language, text in zip(LANGUAGES, answers, strict=True):
            kept = (TEXTS / language / f"{state}.txt").read_text(encoding="utf-8")
            assert self._plain(text) == kept, f"{state}, {language}"

    def _plain(self, text: str) -> str:
        for run, name in self.names.items():
            text = text.replace(run, name)
        for pattern, word in _WORDS:
            text = pattern.sub(word, text)
        return text


@pytest.fixture(scope="module")
def ann(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """On one console for all, since each job is over when its test is."""
    folder = tmp_path_factory.mktemp("shown")
    console = Console(folder / "console", {"TUNEPLANE_SIMULATED_GPUS": "h200:8"}).start()
    yield Client(folder / "client", console, console.add_user(scopes=("read", "write", "admin"))).prepare(typed=True)
    console.stop()


@pytest.fixture
def stage(ann: Client, tmp_path: Path) -> Iterator[Stage]:
    client = replace(ann, folder=tmp_path / "client")
    shutil.copytree(ann.folder, client.folder)
    stage = Stage(client, tmp_path / "control")
    yield stage
    for run in stage.names:
        if client.show(run)["phase"] in ("queued", "running"):
            client.tp("job", "cancel", run, "--yes", "--wait")


def test_a_queued_job(stage: Stage) -> None:
    stage.hold("HOLDER", 1, "--max-duration", "2h", profile="h200:8", COUNT=3)
    run = stage.submit("RUN", profile="h200:8", COUNT=1)
    wait_until("it waits for cards", lambda: (stage.client.show(run)["waiting"] or {}).get("kind") == "cards")
    stage.check("queued", run)


def test_a_failed_job(stage: Stage) -> None:
    run = stage.submit("RUN", COUNT=6, SAVE=2, FAIL=5)
    stage.client.wait(run, "failed")
    stage.check("failed", run)


def test_a_lost_job(stage: Stage) -> None:
    run = stage.hold("RUN", 5, COUNT=6, SAVE=2)
    kill_unseen(run)
    stage.client.wait(run, "lost")
    stage.check("lost", run)


def test_a_paused_job(stage: Stage) -> None:
    run = stage.hold("RUN", 3, COUNT=6)
    stage.client.tp("job", "pause", run)
    wait_until("it is parked", lambda: stage.client.show(run)["phase"] == "queued")
    stage.check("paused", run)


def test_an_unapproved_job(stage: Stage) -> None:
    stage.client.tp("admin", "policy", "set", "approval", "gpus=2", "--yes")
    run = stage.submit("RUN", profile="h200:4", COUNT=1)
    stage.check("unapproved", run)


def test_a_resting_job(stage: Stage) -> None:
    """Its third rest is some twenty seconds long."""
    train = stage.client.lab / "experiments" / "count" / "train.sh"
    train.write_text(f"echo '{RANK_LOST}'\nexec python3 count.py\n")
    run = stage.submit("RUN", "--retries", "infra=3", COUNT=6, FAIL=1)

    def rests() -> bool:
        job = stage.client.show(run)
        return job["attempt"] == 4 and job["phase"] == "queued" and job["not_before"] is not None

    wait_until("it rests before its fourth attempt", rests)
    stage.check("resting", run)


def kill_unseen(run: str) -> None:
    """SIGKILL to everything of a run, first to what would have told how it ended."""
    mark = f"TUNEPLANE_RUN_ID={run}".encode()
    mine = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if mark in _read(path)]
    assert mine
    parents = {int(_read(Path(f"/proc/{pid}/status")).split(b"PPid:")[1].split()[0]) for pid in mine} - set(mine)
    watchers = [pid for pid in parents if b"engine/supervisor" in _read(Path(f"/proc/{pid}/cmdline"))]
    assert watchers
    for pid in (*watchers, *mine):
        os.kill(pid, signal.SIGKILL)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # another process, gone or not ours to look at
        return b""
