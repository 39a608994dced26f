"""What torchrun writes per rank instead of printing it: the log of each rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tuneplane.runner.conftest import MakeJob
from tests.tuneplane.runner.ingest_server import IngestServer
from tuneplane.runner.redaction import Redactor
from tuneplane.runner.tails.rank_logs import RankLogs

EMOJI = "\U0001f600".encode()


def write(folder: Path, rank: object, name: str, data: bytes) -> None:
    path = folder / "run_abc" / "attempt_0" / str(rank) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(data)


def said(logs: RankLogs, final: bool = False) -> list[tuple[int, str, str]]:
    records = [record for record in logs.records(final) if record is not None]
    return [(record.rank, record.body["fd"], record.body.get("data", record.body.get("data64"))) for record in records]


def test_each_file_is_the_log_of_its_rank(tmp_path: Path) -> None:
    logs = RankLogs(str(tmp_path), Redactor({}))
    assert said(logs) == []
    write(tmp_path, 0, "stdout.log", b"zero\n")
    write(tmp_path, 1, "stderr.log", b"one")
    for rank, name in ((1, "error.json"), ("x", "stdout.log"), (9_999_999, "stdout.log")):
        write(tmp_path, rank, name, b"no log of a rank\n")
    assert said(logs, final=True) == [(0, "stdout", "zero\n"), (1, "stderr", "one")]
    write(tmp_path, 1, "stderr.log", b" more\n")
    assert said(logs) == [(1, "stderr", " more\n")]


def test_characters_and_secrets_that_are_cut_by_a_write(tmp_path: Path) -> None:
    logs = RankLogs(str(tmp_path), Redactor({"KEY": "abcdef-ghijkl"}))
    write(tmp_path, 3, "stdout.log", b"x" + EMOJI[:2])
    assert said(logs, final=False) == [(3, "stdout", "x")]
    write(tmp_path, 3, "stdout.log", EMOJI[2:] + b" abcdef-")
    assert said(logs) == [(3, "stdout", "\U0001f600 ")]
    write(tmp_path, 3, "stdout.log", b"ghijkl ab")
    assert said(logs) == [(3, "stdout", "[redacted:KEY] ")]
    assert said(logs, final=True) == [(3, "stdout", "ab")]


SCRIPT = """
for rank in 0 1; do
  mkdir -p "$TUNEPLANE_OUT_DIR/ranks/r/attempt_0/$rank"
  echo "rank $rank $API_TOKEN" > "$TUNEPLANE_OUT_DIR/ranks/r/attempt_0/$rank/stdout.log"
done
echo launcher
"""


def with_ranks(capsule: dict[str, Any]) -> None:
    capsule["recipe"]["adapter_options"]["log_hints"] = [{"kind": "ranks", "path": "ranks"}]


def test_a_runs_ranks_have_logs_of_their_own(make_job: MakeJob, console: IngestServer) -> None:
    job = make_job(SCRIPT, change=with_ranks)
    assert job.run(TUNEPLANE_ENV_API_TOKEN="abcdef-ghijkl").returncode == 0
    assert sorted(console.text("stdout").splitlines()) == [b"launcher", b"rank 0 [redacted:API_TOKEN]"]
    assert [record["data"] for record in console.records("log", rank=1)] == ["rank 1 [redacted:API_TOKEN]\n"]
    console.assert_no_gaps()


def test_on_several_machines_they_are_left_alone(make_job: MakeJob, console: IngestServer) -> None:
    job = make_job(SCRIPT, change=with_ranks, machines=2)
    job.run(TUNEPLANE_ENV_API_TOKEN="abcdef-ghijkl", TUNEPLANE_MACHINE_COUNT="2")
    assert console.text("stdout") == b"launcher\n"
    assert console.records("log", rank=1) == []
