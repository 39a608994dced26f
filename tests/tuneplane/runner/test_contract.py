"""What the runner reads and writes is what the contract says. Needs the contract's own library, so not on the oldest Pythons."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.runner.ingest_server import IngestServer
from tests.tuneplane.runner.job_folder import JobFolder
from tuneplane.runner import frames

pydantic = pytest.importorskip("pydantic", reason="the contract's models need pydantic")

MakeJob = Callable[..., JobFolder]
SCRIPT = """
exec "$TUNEPLANE_PYTHON" - <<'END'
import os
from tuneplane.report import init, log, log_samples, log_event
init(config={"lr": 1e-3, "nested": {"x": float("inf")}})
for step in range(3):
    log({"loss": 1.0, "odd": float("-inf")}, step, epoch=0.1)
log_samples([{"prompt": "p", "completion": "c", "reward": None}])
log_samples([{"prompt": "p", "chosen": "a", "rejected": "b"}], kind="preference")
log_event("checkpoint", {"path": os.environ["TUNEPLANE_OUT_DIR"] + "/checkpoints/checkpoint-4", "step": 4})
os.makedirs(os.environ["TUNEPLANE_OUT_DIR"] + "/checkpoints/checkpoint-4")
os.write(1, b"\\xff\\n")
os.write(2, b"fine\\n")
raise SystemExit(3)
END
"""


def test_outcome_artifacts_and_every_record_fit_their_models(make_job: MakeJob, console: IngestServer) -> None:
    from tuneplane.contract.capsule import Capsule
    from tuneplane.contract.ingest import Record
    from tuneplane.contract.outcome import ArtifactIndex, Outcome

    job = make_job(SCRIPT)
    Capsule.model_validate(job.capsule)
    assert job.run().returncode == 3, job.outcome()["log_tail"]
    outcome = Outcome.model_validate(job.outcome())
    assert outcome.exit_code == 3
    assert outcome.spool_drained
    index = ArtifactIndex.model_validate(job.artifacts())
    assert index.checkpoints[0].path == "checkpoints/checkpoint-4"
    assert index.checkpoints[0].problem
    record_model: Any = pydantic.TypeAdapter(Record)
    seen: dict[str, int] = {}
    for (_, _, stream), records in console.stored.items():
        for record in records.values():
            record_model.validate_python(record)
            seen[stream] = seen.get(stream, 0) + 1
    assert set(seen) == {"log", "metric", "sample", "event"}
    Outcome.model_validate({**console.events("outcome")[0]})


def test_heartbeats_fit_their_model(make_job: MakeJob, console: IngestServer) -> None:
    from tuneplane.contract.ingest import Heartbeat

    make_job("sleep 0.5").run()
    assert [Heartbeat.model_validate(beat).rank for beat in console.heartbeats]


@pytest.mark.parametrize("stream", ["log", "metric", "sample", "event"])
def test_a_blank_record_fits_its_model(stream: str) -> None:
    from tuneplane.contract.ingest import Record

    frame = frames.blank(1, frames.Frame(stream, 0, 7, b"{}"))
    record = pydantic.TypeAdapter(Record).validate_python(json.loads(frame.payload))
    assert record.seq == 7


def test_a_failure_before_the_start_fits_too(make_job: MakeJob, tmp_path: Path) -> None:
    from tuneplane.contract.outcome import Outcome

    job = make_job("true")
    job.package.unlink()
    job.run()
    assert Outcome.model_validate(job.outcome()).reason == "storage-failed"
