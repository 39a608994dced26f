"""From report files to records: names, numbers, files that rotate, lines nobody should have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tuneplane.runner import limits
from tuneplane.runner.metric_names import MetricNames
from tuneplane.runner.report_files import ReportFiles
from tuneplane.runner.report_lines import ReportLines


def lines_of(machine_rank: int = 0, **aliases: str) -> ReportLines:
    return ReportLines(MetricNames(aliases), machine_rank, "/out")


def metric(name: str, **columns: Any) -> bytes:
    series = {"step": [1], "time": [2.0], "value": [3.0], **columns}
    return json.dumps({"k": "m", "rank": 0, "series": {name: series}}).encode()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("loss", "train/loss"),
        ("train/x", "train/x"),
        ("validation/acc", "validation/acc"),
        ("system/gpu", "system/gpu"),
        ("rewards/chosen", "raw/rewards/chosen"),
        ("奖励 🙂", "raw/奖励 🙂"),
        ('../../etc/"passwd"', 'raw/../../etc/"passwd"'),
    ],
)
def test_names_become_canonical(name: str, shown: str) -> None:
    (record,) = lines_of(loss="train/loss").records(metric(name))
    assert list(record.body["series"]) == [shown]


def test_an_alias_with_a_star_keeps_the_rest_of_the_name() -> None:
    aliases = {
        "rewards/*": "train/rewards/*",
        "rewards/a/*": "train/a/*",
        "rewards/a/mean": "train/exact",
        "eval_*": "validation/all",
    }
    names = MetricNames(aliases)
    shown = {
        name: names.canonical(name)
        for name in ("rewards/x/std", "rewards/a/std", "rewards/a/mean", "eval_loss", "reward")
    }
    assert shown == {
        "rewards/x/std": "train/rewards/x/std",
        "rewards/a/std": "train/a/std",
        "rewards/a/mean": "train/exact",
        "eval_loss": "validation/all",
        "reward": "raw/reward",
    }


@pytest.mark.parametrize("name", ["", "x" * 200, "a\nb", "a\x00b", "\ud800"])
def test_names_that_cannot_be_shown_are_counted(name: str) -> None:
    names = MetricNames({})
    assert names.canonical(name) is None
    assert names.canonical(name) is None
    assert names.refused == 1


def test_the_number_of_names_is_bounded() -> None:
    names = MetricNames({})
    assert sum(names.canonical(f"metric {number}") is not None for number in range(10_000)) == 5000
    assert names.refused == 5000
    assert names.canonical("metric 0") == "raw/metric 0"


def test_two_names_of_one_metric_are_both_kept() -> None:
    columns = {"step": [1], "time": [1.0], "value": [1.0]}
    line = json.dumps({"k": "m", "rank": 0, "series": {"loss": columns, "train/loss": columns}}).encode()
    assert [list(record.body["series"]) for record in lines_of(loss="train/loss").records(line)] == [["train/loss"]] * 2


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"k":"m"}',
        b'{"k":"x","rank":0}',
        b'{"k":"m","rank":-1,"series":{}}',
        b'{"k":"m","rank":true,"series":{}}',
        metric("x", step=[1, 2]),
        metric("x", step=[1.5]),
        metric("x", value=["many"]),
        metric("x", value=[float("nan")]),
        metric("x", time=[float("inf")]),
        metric("x", epoch=[1.0, 2.0]),
        metric("x", step=[2**60]),
        b'{"k":"s","rank":0,"samples":[{"kind":"song","step":0,"time":1,"data":{}}]}',
        b'{"k":"e","rank":0,"event":"","time":1,"data":{}}',
        b"[" * 100_000,
        b'{"k":"e","rank":0,"event":"hyperparams","time":1,"data":{"x":"' + b"x" * 300_000 + b'"}}',
    ],
)
def test_a_line_that_is_no_report_line_is_counted_and_left_out(line: bytes) -> None:
    lines = lines_of()
    assert lines.records(line) == []
    assert lines.bad == 1


def test_values_that_json_lacks_travel_as_text() -> None:
    (record,) = lines_of().records(metric("train/x", value=["NaN"]))
    assert record.body["series"]["train/x"]["value"] == ["NaN"]
    event = b'{"k":"e","rank":0,"event":"hyperparams","time":1,"data":{"lr":Infinity,"list":[NaN]}}'
    assert lines_of().records(event)[0].body["data"] == {"lr": "Infinity", "list": ["NaN"]}


def test_events_count_in_the_machines_sequence_and_name_the_rank() -> None:
    line = b'{"k":"e","rank":5,"event":"environment","time":1,"data":{}}'
    (record,) = lines_of(machine_rank=1).records(line)
    assert (record.stream, record.rank, record.body["data"]) == ("event", 1, {"rank": 5})


@pytest.mark.parametrize(
    ("path", "shown"),
    [("/out/checkpoints/checkpoint-4", "checkpoints/checkpoint-4"), ("/elsewhere/c-4", "/elsewhere/c-4")],
)
def test_checkpoints_are_named_relative_to_the_out_dir(path: str, shown: str) -> None:
    lines = lines_of()
    event = {"k": "e", "rank": 0, "event": "checkpoint", "time": 1, "data": {"path": path, "step": 4}}
    assert lines.records(json.dumps(event).encode())[0].body["data"]["path"] == shown


class Writer:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, name: str, text: str) -> None:
        with (self.directory / name).open("a") as file:
            file.write(text)


def test_only_complete_lines_are_given_and_each_once(tmp_path: Path) -> None:
    files, writer = ReportFiles(str(tmp_path)), Writer(tmp_path)
    writer.write("0-1.0.ndjson", "a\nb\nhal")
    writer.write("notes.txt", "no report\n")
    assert list(files.lines()) == [b"a", b"b"]
    assert list(files.lines()) == []
    writer.write("0-1.0.ndjson", "f\nc\n")
    writer.write("1-2.0.ndjson", "other\n")
    assert list(files.lines()) == [b"half", b"c", b"other"]


def test_a_file_is_removed_when_its_writer_has_moved_on(tmp_path: Path) -> None:
    files, writer = ReportFiles(str(tmp_path)), Writer(tmp_path)
    writer.write("0-1.0.ndjson", "a\n")
    list(files.lines())
    assert (tmp_path / "0-1.0.ndjson").exists()
    writer.write("0-1.0.ndjson", "b\n")
    writer.write("0-1.1.ndjson", "c\n")
    assert list(files.lines()) == [b"b", b"c"]
    assert (tmp_path / "0-1.0.ndjson").exists(), "its records may not be in the spool yet"
    assert list(files.lines()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["0-1.1.ndjson"]


def test_a_line_without_end_is_skipped_and_the_next_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REPORT_READ_BYTES", 100)
    monkeypatch.setattr(limits, "REPORT_LINE_BYTES", 400)
    files, writer = ReportFiles(str(tmp_path)), Writer(tmp_path)
    writer.write("0-1.0.ndjson", "x" * 1000 + "\nok\n" + "y" * 300 + "\n")
    assert list(files.lines()) == [b"ok", b"y" * 300]
    assert files.too_long == 1


def test_a_directory_that_is_gone_is_quiet(tmp_path: Path) -> None:
    assert list(ReportFiles(str(tmp_path / "gone")).lines()) == []


def test_many_names(tmp_path: Path) -> None:
    series: dict[str, Any] = {f"m{n}": {"step": [1], "time": [1.0], "value": [1.0]} for n in range(6000)}
    (record,) = lines_of().records(json.dumps({"k": "m", "rank": 0, "series": series}).encode())
    assert len(record.body["series"]) == 5000
