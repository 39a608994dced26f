"""`tp job logs`, `metrics` and `samples`: choosing, drawing, following and exporting what a job reported."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.cli.conftest import TP, Tp
from tests.tuneplane.cli.scripted_console import API, RUN, ScriptedConsole, job
from tests.tuneplane.client.scripted_server import Reply, Request, as_json, problem
from tuneplane.cli.job.log_lines import LogPrinter
from tuneplane.client import changes


@pytest.fixture(autouse=True)
def short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(changes, "QUIET_SECONDS", 0.01)
    monkeypatch.setattr("tuneplane.client.http._pause", lambda *_args: 0.0)


def queries(console: ScriptedConsole, path: str) -> list[dict[str, list[str]]]:
    return [request.query for request in console.server.requests(f"{API}/jobs/{RUN}/{path}")]


class TestLogs:
    def test_levels_streams_and_context_are_asked_of_the_console(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        items = [{"text": "ERROR x", "level": "error", "match": True}, {"text": "y", "level": None, "match": False}]
        signed_in.on(RUN, "/logs", as_json({"items": items, "next_cursor": "x", "end": True}))
        options = ("--level", "warning", "--stream", "stderr", "-C", "3")
        assert tp("job", "logs", RUN, "--no-follow", *options).out == "ERROR x\ny\n"
        (query,) = queries(signed_in, "logs")
        assert (query["level"], query["fd"], query["context"]) == (["warning"], ["stderr"], ["3"])
        assert "'warning'" in tp("job", "logs", RUN, "--level", "loud", code=2).err

    def test_raw_bytes_come_as_they_are(self, signed_in: ScriptedConsole) -> None:
        raw = b"\xff\0\r50%\r100%\n" * 1000
        signed_in.on(RUN, "/logs/raw", Reply(200, raw, {"content-type": "application/octet-stream"}))
        arguments = [*TP, "job", "logs", RUN, "--raw", "--rank", "1", "--stream", "stdout"]
        assert subprocess.run(arguments, capture_output=True, timeout=60, check=True).stdout == raw
        (query,) = queries(signed_in, "logs/raw")
        assert query == {"rank": ["1"], "fd": ["stdout"]}

    @pytest.mark.parametrize("option", [("--grep", "x"), ("--level", "error"), ("-f",), ("--json",), ("--tail", "3")])
    def test_raw_refuses_what_chooses_among_lines(self, tp: Tp, signed_in: ScriptedConsole, option: Any) -> None:
        assert "--raw" in tp("job", "logs", RUN, "--raw", *option, code=2).err

    def test_on_a_terminal_grave_lines_have_a_colour_and_others_keep_theirs(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        lines: list[Any] = [
            {"text": "bad", "level": "error"},
            {"text": "\x1b[32mgreen\x1b[0m", "level": "error"},
            {"text": "around", "level": "error", "match": False},
            {"text": "plain", "level": None},
        ]
        for line in lines:
            LogPrinter().print(line)
        monkeypatch.setenv("NO_COLOR", "1")
        LogPrinter().print(lines[0])
        bad, green, around, plain, without = capsys.readouterr().out.splitlines()
        assert bad == "\x1b[31mbad\x1b[0m"
        assert green.startswith("\x1b[32m")
        assert around == "\x1b[2maround\x1b[0m"
        assert (plain, without) == ("plain", "bad")


class TestMetrics:
    @pytest.fixture
    def measured(self, signed_in: ScriptedConsole) -> ScriptedConsole:
        summary = {"latest": {"step": 3, "value": 1.0}, "count": 3, "attempts": [1]}
        signed_in.on(RUN, "/metrics", as_json({"metrics": dict.fromkeys(("train/loss", "train/reward", "b"), summary)}))
        part = {"attempt": 1, "step": [1, 2, 3], "value": [4.0, "NaN", 1.0], "x": [100.0, 2000.0, None]}
        signed_in.on(RUN, "/curves", as_json({"series": {"train/loss": [part], "train/reward": [part]}}))
        return signed_in

    def test_several_curves_over_another_axis_smoothed(self, tp: Tp, measured: ScriptedConsole) -> None:
        options = ("--plot", "--x", "tokens", "--smooth", "0.9", "--rank", "2")
        text = tp("job", "metrics", RUN, "train/loss", "b", *options).out
        assert "train/loss · smoothed 0.9 · 1 value is no number" in text
        assert "b · no points yet" in text
        assert "└100" in text
        (query,) = queries(measured, "curves")
        assert (query["x"], query["name"], query["rank"]) == (["tokens"], ["train/loss", "b"], ["2"])

    def test_a_curve_is_as_wide_as_the_terminal(
        self, tp: Tp, measured: ScriptedConsole, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        widths = []
        for columns in ("60", "120"):
            monkeypatch.setenv("COLUMNS", columns)
            widths.append(max(map(len, tp("job", "metrics", RUN, "train/loss", "--plot").out.splitlines())))
        assert widths[0] <= 60
        assert 60 < widths[1] <= 120

    def test_following_prints_every_point_once_until_the_job_is_over(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        phases = iter(["running", "running", "running", "succeeded"])
        signed_in.on(RUN, "", lambda _request: as_json(job(phase=next(phases, "succeeded"))))
        attempts = iter([[1], [1], [1, 2], [1, 2]])
        signed_in.on(
            RUN,
            "/metrics",
            lambda _r: as_json(
                {"metrics": {"a": {"latest": {"step": 1, "value": 1.0}, "attempts": next(attempts, [1, 2])}}}
            ),
        )
        first: dict[str, Any] = {"attempt": 1, "step": [1, 2, 3], "value": [1.0, "NaN", 3.0]}
        second: dict[str, Any] = {"attempt": 2, "step": [2, 3, 4], "value": [20.0, 30.0, 40.0]}
        looks = iter([[first | {"step": [1, 2], "value": [1.0, "NaN"]}], [first], [first, second]])

        def curves(request: Request) -> Reply:
            parts = next(looks, [first, second])
            least = int(request.query.get("step_min", ["0"])[0])
            kept = [
                part
                | {
                    name: [v for v, s in zip(part[name], part["step"], strict=True) if int(s) >= least]
                    for name in ("value", "step")
                }
                for part in parts
            ]
            return as_json({"series": {"a": kept}})

        signed_in.on(RUN, "/curves", curves)
        lines = [json.loads(line) for line in tp("job", "metrics", RUN, "a", "-f", "--json").out.splitlines()]
        assert [(line["attempt"], line["step"], line["value"]) for line in lines] == [
            (1, 1, 1.0), (1, 2, "NaN"), (1, 3, 3.0), (2, 2, 20.0), (2, 3, 30.0), (2, 4, 40.0),
        ]  # fmt: skip

    def test_following_says_what_is_thinned_and_keeps_both_values_of_a_step(
        self, tp: Tp, signed_in: ScriptedConsole
    ) -> None:
        signed_in.on(RUN, "", as_json(job(phase="succeeded")))
        signed_in.on(RUN, "/metrics", as_json({"metrics": {"a": {"latest": {"step": 1, "value": 1.0}}}}))
        part = {"attempt": 1, "step": [1, 1, 9], "value": [1.0, 2.0, 3.0], "count": 70_000}
        signed_in.on(RUN, "/curves", as_json({"series": {"a": [part]}}))
        said = tp("job", "metrics", RUN, "a", "-f", "--json")
        assert [json.loads(line)["value"] for line in said.out.splitlines()] == [1.0, 2.0, 3.0]
        assert "3 of 70000" in said.err

    def test_following_on_a_terminal_draws_anew(self, tp: Tp, measured: ScriptedConsole) -> None:
        phases = iter(["running", "succeeded"])
        measured.on(RUN, "", lambda _request: as_json(job(phase=next(phases, "succeeded"))))
        out = tp("job", "metrics", RUN, "train/loss", "-f", "--plot").out
        assert out.startswith("\x1b[H\x1b[2J")
        assert "┤" in out
        assert out.count("\x1b[2J") == 1  # nothing had changed


class TestExports:
    def test_a_file_is_whole_and_its_ending_says_what_it_is(
        self, tp: Tp, signed_in: ScriptedConsole, tmp_path: Path
    ) -> None:
        signed_in.on(RUN, "/metrics/export", Reply(200, b"a,b\r\n1,2\r\n", {"content-type": "text/csv"}))
        target = tmp_path / "out.csv"
        target.write_text("old")
        answer = tp("job", "metrics", RUN, "train/loss", "--rank", "0", "--export", str(target))
        assert answer.out == ""
        assert str(target) in answer.err
        assert target.read_bytes() == b"a,b\r\n1,2\r\n"
        assert queries(signed_in, "metrics/export") == [{"format": ["csv"], "name": ["train/loss"], "rank": ["0"]}]
        assert target.stat().st_mode & 0o777 == 0o644

    @pytest.mark.parametrize(("name", "form"), [("x.json", "json"), ("x.jsonl", "json"), ("X.PARQUET", "parquet")])
    def test_samples_with_their_filters(
        self, tp: Tp, signed_in: ScriptedConsole, tmp_path: Path, name: str, form: str
    ) -> None:
        signed_in.on(RUN, "/samples/export", Reply(200, b"PAR1", {"content-type": "application/octet-stream"}))
        options = ("--grep", "boxed", "--min-reward", "-1.5", "--step", "10:20", "--kind", "completion")
        tp("job", "samples", RUN, *options, "--export", str(tmp_path / name))
        (query,) = queries(signed_in, "samples/export")
        assert query == {
            "format": [form], "grep": ["boxed"], "min_reward": ["-1.5"], "step_min": ["10"], "step_max": ["20"], "kind": ["completion"],
        }  # fmt: skip

    def test_another_ending_is_refused_before_anything_is_asked(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.on(RUN, "/metrics/export", Reply(200, b""))
        assert ".parquet" in tp("job", "metrics", RUN, "--export", "out.xlsx", code=2).err
        assert queries(signed_in, "metrics/export") == []

    def test_what_breaks_leaves_the_old_file_and_no_other(
        self, tp: Tp, signed_in: ScriptedConsole, tmp_path: Path
    ) -> None:
        target = tmp_path / "out.csv"
        target.write_text("old")
        signed_in.on(RUN, "/metrics/export", problem(404, "not-found", "there is no run"))
        assert "there is no run" in tp("job", "metrics", RUN, "--export", str(target), code=1).err
        signed_in.on(RUN, "/metrics/export", Reply(200, b"", {}))
        assert "cannot be written" in tp("job", "metrics", RUN, "--export", str(tmp_path / "no" / "x.csv"), code=1).err
        assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.csv"]
        assert target.read_text() == "old"


class TestSamples:
    @pytest.mark.parametrize(
        ("text", "asked"),
        [
            ("5", {"step": ["5"]}),
            ("5:", {"step_min": ["5"]}),
            (":9", {"step_max": ["9"]}),
            ("5:9", {"step_min": ["5"], "step_max": ["9"]}),
        ],
    )
    def test_steps_and_order(self, tp: Tp, signed_in: ScriptedConsole, text: str, asked: dict[str, list[str]]) -> None:
        signed_in.on(RUN, "/samples", as_json({"items": [], "next_cursor": None}))
        tp("job", "samples", RUN, "--step", text, "--order", "lowest", "--max-reward", "0.5", "--rank", "3")
        query = queries(signed_in, "samples")[0]
        assert query == asked | {"order": ["lowest"], "max_reward": ["0.5"], "rank": ["3"], "limit": ["10"]}

    def test_a_reward_moves_no_cursor(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        data = {"completion": "x", "reward": "\x1b]0;title\x07\x1b[2J"}
        item = {"id": 1, "attempt": 1, "rank": 0, "step": 1, "time": 1.0, "kind": "completion", "data": data}
        signed_in.on(RUN, "/samples", as_json({"items": [item], "next_cursor": None}))
        out = tp("job", "samples", RUN).out
        assert "title" in out
        assert "\x1b" not in out
        assert "\x07" not in out

    @pytest.mark.parametrize("text", ["", ":", "a", "5:b", "-1", "9" * 20])
    def test_steps_that_are_none(self, tp: Tp, signed_in: ScriptedConsole, text: str) -> None:
        assert "100:200" in tp("job", "samples", RUN, f"--step={text}", code=2).err

    def test_a_search_goes_on_over_pages_without_a_match(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        item = {"id": 9, "step": 1, "kind": "preference", "reward": 1.25, "data": {"chosen": "a", "rejected": "b"}}
        pages = [as_json({"items": [], "next_cursor": "x"}), as_json({"items": [item], "next_cursor": None})]
        signed_in.on(RUN, "/samples", pages)
        assert "reward 1.25" in tp("job", "samples", RUN, "--grep", "a").out


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("logs", {"items": [], "next_cursor": "x", "end": True}),
        ("metrics", {"metrics": {}}),
        ("samples", {"items": []}),
    ],
)
def test_what_the_projects_retention_removed_is_not_called_missing(
    tp: Tp, signed_in: ScriptedConsole, path: str, answer: dict[str, Any]
) -> None:
    signed_in.on(RUN, f"/{path}", as_json(answer | {"removed_at": "2026-03-01T10:00:00+00:00"}))
    said = tp("job", path, RUN)
    assert said.out == ""
    assert "retention" in said.err
    assert "2026-03-01" in said.err
    assert "no " not in said.err
