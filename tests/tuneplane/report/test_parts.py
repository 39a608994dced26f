"""Ranks, files and lines of the reporter."""

from __future__ import annotations

import json
import resource
import signal
from pathlib import Path

import pytest

from tuneplane.report.files import ReportFile
from tuneplane.report.lines import MAX_POINTS_PER_LINE, Columns
from tuneplane.report.ranks import detect_rank
from tuneplane.report.values import fit_sample, to_json_value


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        ({}, 0),
        ({"RANK": "3"}, 3),
        ({"RANK": "3", "TUNEPLANE_MACHINE_RANK": "1"}, 3),
        ({"OMPI_COMM_WORLD_RANK": "2"}, 2),
        ({"SLURM_PROCID": "5", "RANK": "1"}, 1),
        ({"TUNEPLANE_MACHINE_RANK": "2", "TUNEPLANE_MACHINE_COUNT": "4"}, 2),
        ({"RANK": "junk"}, 0),
        ({"RANK": "-1"}, 0),
        ({"RANK": "٣"}, 0),
    ],
)
def test_the_rank_is_the_launchers_or_the_machines(environ: dict[str, str], rank: int) -> None:
    assert detect_rank(environ) == rank


def test_launchers_that_do_not_know_of_each_other_are_moved_apart() -> None:
    ranks = [
        detect_rank(
            {
                "RANK": str(local),
                "WORLD_SIZE": "2",
                "LOCAL_WORLD_SIZE": "2",
                "TUNEPLANE_MACHINE_RANK": str(machine),
                "TUNEPLANE_MACHINE_COUNT": "3",
            }
        )
        for machine in range(3)
        for local in range(2)
    ]
    assert ranks == [0, 1, 2, 3, 4, 5]


def read(directory: Path) -> list[str]:
    return [path.name for path in sorted(directory.iterdir())]


def test_files_rotate_and_what_is_not_read_is_bounded(tmp_path: Path) -> None:
    file = ReportFile(str(tmp_path), 0, rotate_bytes=100, max_pending=300)
    written = [file.write(b"x" * 49 + b"\n") for _ in range(12)]
    assert written == [True] * 6 + [False] * 6
    assert len(read(tmp_path)) == 4, "three full ones, and an empty one that says that they are final"
    (tmp_path / read(tmp_path)[0]).unlink()
    assert file.write(b"x" * 49 + b"\n"), "the runner has read one: there is room"
    file.close()


def test_a_recycled_pid_does_not_continue_an_old_file(tmp_path: Path) -> None:
    for _ in range(2):
        file = ReportFile(str(tmp_path), 0)
        file.write(b"line\n")
        file.close()
    assert [name.split(".")[1] for name in read(tmp_path)] == ["0", "1"]


def test_a_line_cut_by_a_full_disk_does_not_spoil_the_next(tmp_path: Path) -> None:
    file = ReportFile(str(tmp_path), 0)
    assert file.write(b"first\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
        assert not file.write(b"second\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)
    assert file.write(b"third\n")
    assert (tmp_path / read(tmp_path)[0]).read_text() == "first\nseco\nthird\n"
    file.close()


def test_lines_hold_at_most_4096_points_in_order() -> None:
    calls = [({"a": step, "b": -step}, step, 1.0, None) for step in range(6000)]
    lines = [json.loads(line) for line in Columns(lambda kind, text: None).lines(2, calls)]
    for line in lines:
        assert line["rank"] == 2
        assert sum(len(columns["step"]) for columns in line["series"].values()) <= MAX_POINTS_PER_LINE
    for name, sign in (("a", 1), ("b", -1)):
        values = [value for line in lines for value in line["series"].get(name, {"value": []})["value"]]
        assert values == [sign * step for step in range(6000)]


def test_a_sample_stays_below_the_limit_of_the_wire() -> None:
    for text in ("a" * 10**6, "训" * 10**6, "\n" * 10**6, "\x01" * 10**6):
        data = fit_sample({"prompt": text, "completion": text, "messages": [{"content": text}]})
        assert len(json.dumps(data, ensure_ascii=False).encode()) < 256 * 1024
        assert data["prompt"].endswith("…")


def test_any_object_becomes_json_within_bounds() -> None:
    deep: dict[str, object] = {}
    deep["again"] = deep
    value = to_json_value(
        {"path": Path("/x"), "set": {1}, "deep": deep, "many": range(3), "long": list(range(5000)), 5: b"x"}
    )
    assert value["path"] == "/x"
    assert value["set"] == [1]
    assert len(value["long"]) == 1000
    json.dumps(value, allow_nan=False)
