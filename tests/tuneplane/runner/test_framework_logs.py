"""A framework that knows nothing of us: what it logs in its own way reaches the console as metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.runner.conftest import MakeJob
from tests.tuneplane.runner.ingest_server import IngestServer
from tests.tuneplane.runner.test_json_lines import SWIFT, VERL
from tuneplane.adapters import LogHint
from tuneplane.runner.metric_names import MetricNames
from tuneplane.runner.output import Chunk
from tuneplane.runner.report_lines import ReportLines
from tuneplane.runner.tails.framework_logs import FrameworkLogs
from tuneplane.runner.tails.tensorboard import TensorboardTail


def points(records: list[dict[str, Any]]) -> list[tuple[str, int, Any]]:
    return [
        (name, step, value)
        for record in records
        for name, columns in record["series"].items()
        for step, value in map(lambda *point: point, columns["step"], columns["value"])
    ]


def logs_of(out: Path, *hints: LogHint, names: MetricNames | None = None) -> FrameworkLogs:
    return FrameworkLogs(hints, str(out), ReportLines(names or MetricNames({"loss": "train/loss"}), 0, str(out)))


def bodies(logs: FrameworkLogs, final: bool = False) -> list[dict[str, Any]]:
    return [record.body for record in logs.records(final) if record is not None]


def test_each_kind_of_hint_under_canonical_names(tmp_path: Path, event_files: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(VERL + b"\n")
    (tmp_path / "v0").mkdir()
    (tmp_path / "v0/logging.jsonl").write_bytes(SWIFT + b"\n")
    (tmp_path / "tensorboard").symlink_to(event_files / "tensorboardx")
    logs = logs_of(
        tmp_path,
        LogHint("jsonl", "metrics.jsonl"),
        LogHint("jsonl", "*/logging.jsonl"),
        LogHint("tensorboard", "tensorboard"),
        LogHint("console", format="verl"),
    )
    logs.feed([Chunk("stdout", 1.0, b"step:3 - loss:0.5\n"), Chunk("runner", 1.0, b"step:4 - loss:0.5\n")])
    found = points(bodies(logs))
    for point in [
        ("raw/actor/pg_loss", 12, -0.0023),
        ("raw/actor/kl_loss", 12, "NaN"),
        ("train/loss", 5, 1.8201),
        ("raw/eval/acc", 2, 0.5),
        ("train/loss", 3, 0.5),
    ]:
        assert found.count(point) == 1
    assert not [point for point in found if point[1] == 4], "the runner's own words are no metrics"
    assert bodies(logs, final=True) == []
    assert logs.problem() == ""


def test_epochs_are_kept_where_there_are_some(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_bytes(SWIFT + b"\n" + b'{"step": 6, "loss": 1.0}\n')
    records = bodies(logs_of(tmp_path, LogHint("jsonl", "m.jsonl")))
    assert [
        columns.get("epoch") for record in records for name, columns in record["series"].items() if name == "train/loss"
    ] == [[0.05], None]


def test_ten_thousand_names_and_what_no_name_may_be(tmp_path: Path) -> None:
    names = {f"m{number}": 1.0 for number in range(10_000)}
    line = {"step": 1, "data": {**names, "": 1.0, "x" * 300: 1.0, "a\nb": 1.0, "😀/../'\"": 1.0}}
    (tmp_path / "m.jsonl").write_text(json.dumps(line) + "\n")
    metric_names = MetricNames({})
    logs = logs_of(tmp_path, LogHint("jsonl", "m.jsonl"), names=metric_names)
    assert len(points(bodies(logs))) == 5000
    assert metric_names.refused == 5001
    assert "names" in logs.problem()


def test_what_cannot_be_read_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_bytes(b'garbage\n{"step": 1, "loss": 1}\n[]\n')
    logs = logs_of(tmp_path, LogHint("jsonl", "m.jsonl"))
    assert points(bodies(logs)) == [("train/loss", 1, 1)]
    assert logs.problem().startswith("2 lines or records")


def test_a_tail_that_fails_does_not_silence_those_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.jsonl").write_bytes(b'{"step": 1, "loss": 1}\n')
    logs = logs_of(tmp_path, LogHint("tensorboard", "t"), LogHint("jsonl", "m.jsonl"))

    def stumble(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(TensorboardTail, "_look", stumble)
    assert points(bodies(logs)) == [("train/loss", 1, 1)]


@pytest.mark.parametrize(
    "hint",
    [
        {"kind": "xml", "path": "a"},
        {"kind": "jsonl"},
        {"kind": "jsonl", "path": "/etc/a"},
        {"kind": "tensorboard", "path": "a/../../b"},
        {"kind": "console", "format": "x"},
    ],
)
def test_hints_that_are_none(hint: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"hint|path|format"):
        LogHint(**hint)


TRAIN = """\
import json, os, shutil, sys
out = os.environ["TUNEPLANE_OUT_DIR"]
with open(out + "/metrics.jsonl", "wb", buffering=0) as file:
    for step in range(300):
        file.write(json.dumps({"step": step, "data": {"loss": 1000 + step}}).encode() + b"\\n")
    file.write(b'{"step": 300, "data": {"loss": 1300}}')
shutil.copytree(sys.argv[1], out + "/tensorboard")
print("{'loss': '7.5', 'epoch': '0.5'}")
"""
HINTS = [
    {"kind": "jsonl", "path": "metrics.jsonl"},
    {"kind": "tensorboard", "path": "tensorboard"},
    {"kind": "console", "format": "dict"},
]


def with_hints(capsule: dict[str, Any]) -> None:
    capsule["recipe"]["adapter_options"]["log_hints"] = HINTS


def test_every_point_of_a_run_arrives_once(make_job: MakeJob, console: IngestServer, event_files: Path) -> None:
    job = make_job(f'"$TUNEPLANE_PYTHON" train.py {event_files / "torch"}', {"train.py": TRAIN}, change=with_hints)
    assert job.run().returncode == 0
    found = points(console.records("metric"))
    losses = [(step, value) for name, step, value in found if name == "train/loss" and isinstance(step, int)]
    written = [(step, 1000 + step) for step in range(301)] + [(1, 7.5)]
    assert sorted(point for point in losses if point in written) == sorted(written)
    assert ("raw/both_validation/both", 3, 2.0) in found
    assert len(found) == len(set(found))
    console.assert_no_gaps()
    assert console.events("warning") == []


def test_a_second_machine_follows_nothing(make_job: MakeJob, console: IngestServer) -> None:
    """The out dir is the same on all machines: the points would come once from each."""
    script = 'echo \'{"step": 1, "loss": 1}\' > "$TUNEPLANE_OUT_DIR/metrics.jsonl"'
    job = make_job(script, change=with_hints, machines=2)
    job.run(TUNEPLANE_MACHINE_RANK="1", TUNEPLANE_MACHINE_COUNT="2")
    assert console.records("metric", rank=1) == console.records("metric") == []


def test_a_long_backlog_does_not_cost_output(make_job: MakeJob, console: IngestServer) -> None:
    """The reader of logs takes turns with the reader of the pipes."""
    script = '"$TUNEPLANE_PYTHON" train.py'
    train = """\
import os
with open(os.environ["TUNEPLANE_OUT_DIR"] + "/metrics.jsonl", "w") as file:
    file.writelines('{"step": %d, "loss": 0.5}\\n' % step for step in range(30_000))
for line in range(60_000):
    print("line of output that is some fifty characters long", line)
"""
    job = make_job(script, {"train.py": train}, change=with_hints)
    job.run()
    assert job.outcome()["lost"] == {}
    assert len(points(console.records("metric"))) == 30_000
    assert console.text("stdout").count(b"\n") == 60_000
