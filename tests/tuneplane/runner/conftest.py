from __future__ import annotations

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
