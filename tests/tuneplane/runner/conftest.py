from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.runner.ingest_server import IngestServer
from tests.tuneplane.runner.job_folder import JOB, JobFolder

MakeJob = Callable[..., JobFolder]


@pytest.fixture
def console() -> Iterator[IngestServer]:
    server = IngestServer().start()
    yield server
    server.stop()


@pytest.fixture
def event_files(tmp_path: Path) -> Path:
    """Folders of TensorBoard files as torch, tensorboardX and tensorboard write them (make_event_files.py)."""
    folder = tmp_path / "event_files"
    for name, content in json.loads((Path(__file__).parent / "event_files.json").read_text()).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(base64.b64decode(content))
    return folder


@pytest.fixture
def make_job(tmp_path: Path, console: IngestServer) -> MakeJob:
    """`make_job("echo hi")`: a job whose train.sh is this; `files`, `change`, `machines` as JobFolder has them."""

    def make(
        script: str,
        files: dict[str, str] | None = None,
        change: Callable[[dict[str, Any]], None] | None = None,
        machines: int = 1,
    ) -> JobFolder:
        return JobFolder(tmp_path / "root", {"train.sh": script, **(files or {})}, console.url(JOB), change, machines)

    return make
