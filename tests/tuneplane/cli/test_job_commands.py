"""`tp job …`: what is shown, followed, waited for, cancelled and downloaded."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import click
import pytest

from tests.tuneplane.cli.conftest import Tp, tree
from tests.tuneplane.cli.scripted_console import API, RUN, ScriptedConsole, job
from tests.tuneplane.client.scripted_server import Reply, Request, as_json, problem
from tuneplane.cli.job.logs import parse_since
from tuneplane.client import changes

OTHER = "06h2h3tgq73w5xjz"


@pytest.fixture(autouse=True)
def short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(changes, "QUIET_SECONDS", 0.01)
    monkeypatch.setattr("tuneplane.client.http._pause", lambda *_args: 0.0)


class TestFinding:
    def test_a_unique_beginning_is_enough_to_look(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.add_job()
        signed_in.add_job(OTHER)
        assert tp("job", "show", RUN[:8], "--json").json["id"] == RUN
        assert tp("job", "show", RUN[:8].upper(), "--json").json["id"] == RUN

    def test_a_beginning_of_several_or_none_is_refused(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.add_job()
        signed_in.add_job(OTHER)
        answer = tp("job", "show", RUN[:5], code=2)
        assert RUN in answer.err
        assert OTHER in answer.err
        assert "no job begins" in tp("job", "show", "zzzz", code=1).err

    @pytest.mark.parametrize("text", ["06h", "../../x", "06h2 h3p9", "٠٦h2h3", "", "x" * 300])
    def test_what_is_no_id_is_a_wrong_command_line(self, tp: Tp, signed_in: ScriptedConsole, text: str) -> None:
        tp("job", "show", text, code=2)
        assert not any(".." in request.path for request in signed_in.server.seen)


class TestList:
    def test_a_run_in_the_queue_of_the_executor_says_so_once_with_place_and_guess(
        self, tp: Tp, signed_in: ScriptedConsole
    ) -> None:
        sentence = "waits in the queue of Slurm: Resources; number 3 in line"
        waiting = {"kind": "executor", "text": sentence, "position": 3, "ahead": 2, "estimate": "2026-01-01T02:00:00Z"}
        signed_in.add_job(
            phase="starting",
            waiting=waiting,
            conditions=[{"type": "executor-queue", "text": sentence}, {"type": "stopping", "text": "told to stop"}],
        )
        shown = tp("job", "show", RUN).out
        assert shown.count(sentence) == 1
        assert f"waiting: {sentence}" in shown
        assert "3, 2 runs are before it" in shown
        assert "at about " in shown
        assert "stopping: told to stop" in shown
        status = tp("status").out
        assert sentence in status
        assert "starting, waiting" in status

    def test_the_machines_of_a_run_are_named(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.add_job(phase="running", nodes=["h7", "h3"])
        assert re.search(r"^machines +h7, h3$", tp("job", "show", RUN).out, re.MULTILINE)

    def test_the_jobs_of_the_lab_with_why_they_wait(self, tp: Tp, lab: Path, signed_in: ScriptedConsole) -> None:
        signed_in.add_job(phase="queued", waiting={"text": "waits for 8 GPUs of h200"})
        signed_in.add_job(OTHER, project="elsewhere")
        text = tp("job", "ls").out
        assert "waits for 8 GPUs of h200" in text
        assert OTHER not in text
        assert "elsewhere/first" in tp("job", "ls", "--all").out
        assert [item["id"] for item in tp("job", "ls", "--all", "--json").json["items"]] == [OTHER, RUN]

    def test_filters_and_the_limit_are_asked_of_the_console(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        for number in range(5):
            signed_in.add_job(f"{number}" * 16, phase="running" if number % 2 else "failed")
        found = tp("job", "ls", "--phase", "running", "--experiment", "first", "--project", "demo", "--json").json
        assert [item["id"][0] for item in found["items"]] == ["3", "1"]
        assert len(tp("job", "ls", "--limit", "3", "--json").json["items"]) == 3

    def test_nothing_is_said_in_words_and_as_an_empty_list(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        assert tp("job", "ls").err == "no jobs\n"
        assert tp("job", "ls", "--json").json == {"items": []}

    def test_text_of_a_job_cannot_steer_the_terminal(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.add_job(phase="queued", waiting={"text": "\x1b]0;owned\x07\x1b[2J"})
        assert "\x1b" not in tp("job", "ls").out + tp("job", "show", RUN).out


class TestShow:
    @pytest.mark.parametrize(
        ("runtime", "shown"),
        [
            ({"ran_in": "docker", "isolated": True}, "docker\n"),
            ({"ran_in": "process", "isolated": False}, "process, not isolated from its machine\n"),
            ({"ran_in": None, "isolated": None}, ""),
            ({}, ""),
        ],
    )
    def test_what_it_runs_in(self, tp: Tp, signed_in: ScriptedConsole, runtime: dict[str, Any], shown: str) -> None:
        signed_in.add_job(runtime=runtime)
        text = tp("job", "show", RUN).out
        assert ("runs in" in text) == bool(shown)
        assert shown in text

    def test_why_it_failed_and_what_to_do(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        reason = {
            "code": "out-of-memory",
            "class": "user",
            "text": "the GPU ran out of memory",
            "hint": "halve the batch",
        }
        signed_in.add_job(
            phase="failed",
            reason=reason,
            simulated=True,
            attempt=2,
            attempts=[{"n": 1, "phase": "failed", "reason": reason}, {"n": 2, "phase": "failed", "reason": reason}],
            conditions=[{"type": "unreachable", "text": "the node does not answer"}],
            latest={"train/loss": {"step": 7, "value": "NaN", "time": 1.0}},
        )
        text = tp("job", "show", RUN).out
        for words in (
            "ran out of memory [out-of-memory]",
            "→ halve the batch",
            "the node does not answer",
            "2×8 h200 (simulated)",
            "NaN",
        ):
            assert words in text

    def test_its_history_is_shown_when_asked_for(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.add_job()
        event = {
            "seq": 1,
            "time": "2026-01-31T12:00:00Z",
            "kind": "phase",
            "from": "queued",
            "to": "starting",
            "text": "",
        }
        signed_in.on(RUN, "/events", as_json({"items": [event], "next_cursor": None}))
        assert "queued → starting" in tp("job", "show", RUN, "--events").out
        assert tp("job", "show", RUN, "--events", "--json").json["events"][0]["kind"] == "phase"


def log_page(*lines: str, cursor: str = "c", more: bool = False, end: bool = False, **extra: Any) -> Reply:
    items = [{"text": line, "attempt": 1, "rank": 0, "fd": "stdout", "time": 1769860800.0} for line in lines]
    return as_json({"items": items, "next_cursor": cursor, "more": more, "end": end, **extra})


class TestLogs:
    def test_pages_are_read_to_the_end_and_no_further(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.add_job(phase="running")
        pages = [log_page("one", cursor="a", more=True), log_page("two", cursor="b"), log_page("never")]
        signed_in.on(RUN, "/logs", pages)
        assert tp("job", "logs", RUN, "--no-follow").out == "one\ntwo\n"
        asked = [request.query.get("cursor") for request in signed_in.server.requests(f"{API}/jobs/{RUN}/logs")]
        assert asked == [None, ["a"]]
        assert signed_in.server.requests(f"{API}/jobs/{RUN}/stream") == []

    def test_following_waits_for_more_until_the_job_is_over(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.add_job(phase="running")
        pages = [log_page("one", cursor="a"), log_page(cursor="a"), log_page("two", cursor="b"), log_page(end=True)]
        signed_in.on(RUN, "/logs", pages)
        assert tp("job", "logs", RUN, "-f").out == "one\ntwo\n"

    def test_following_outlives_a_restart_of_the_console(self, tp: Tp, signed_in: ScriptedConsole, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
        naps: list[float] = []
        monkeypatch.setattr(
            "tuneplane.cli.job.follow.Patience.__init__.__defaults__", (600.0, naps.append, lambda: 0.0)
        )
        signed_in.add_job(phase="running")
        away = problem(500, "internal-error", "restarting")
        signed_in.on(RUN, "/logs", [log_page("one", cursor="a"), away, away, log_page("two", end=True)])
        answer = tp("job", "logs", RUN, "-f")
        assert answer.out == "one\ntwo\n"
        assert naps == [1.0, 2.0]
        assert "waiting for it" in answer.err
        assert "the console is back" in answer.err

    def test_options_are_asked_of_the_console(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.on(RUN, "/logs", [log_page("x", cursor="a", more=True), log_page(end=True)])
        options = (
            "--tail",
            "5",
            "--grep",
            "loss",
            "--since",
            "2026-01-31T12:00:00+01:00",
            "--attempt",
            "2",
            "--rank",
            "1",
        )
        tp("job", "logs", RUN, "--no-follow", *options)
        first, second = (request.query for request in signed_in.server.requests(f"{API}/jobs/{RUN}/logs"))
        assert first["tail"] == ["5"]
        assert "tail" not in second
        for query in (first, second):
            assert query["grep"] == ["loss"]
            assert query["since"] == ["2026-01-31T11:00:00+00:00"]
            assert (query["attempt"], query["rank"]) == (["2"], ["1"])

    def test_json_is_one_object_a_line_as_it_came(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.on(RUN, "/logs", log_page("\x1b[31mred", "文", end=True))
        lines = [json.loads(line) for line in tp("job", "logs", RUN, "--json").out.splitlines()]
        assert [line["text"] for line in lines] == ["\x1b[31mred", "文"]

    def test_ranks_attempts_and_times_are_told_apart(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        items = [
            {"text": "a", "rank": 0, "attempt": 1, "time": 0},
            {"text": "b", "rank": 1, "attempt": 1},
            {"text": "c", "rank": 0, "attempt": 2},
        ]
        signed_in.on(RUN, "/logs", as_json({"items": items, "next_cursor": "x", "end": True}))
        assert tp("job", "logs", RUN).out == "a\n[1] b\n--- attempt 2 ---\n[0] c\n"
        assert "1970" in tp("job", "logs", RUN, "-t").out

    def test_output_that_was_not_kept_is_told(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.on(RUN, "/logs", log_page("x", end=True, dropped_bytes=2_000_000))
        assert "2.0 MB" in tp("job", "logs", RUN).err

    NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("90s", "2026-01-31T11:58:30+00:00"),
            ("10m", "2026-01-31T11:50:00+00:00"),
            ("2h", "2026-01-31T10:00:00+00:00"),
            ("1d", "2026-01-30T12:00:00+00:00"),
            ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00+00:00"),
        ],
    )
    def test_since_takes_a_span_or_a_time(self, text: str, expected: str) -> None:
        assert parse_since(text, self.NOW) == expected

    @pytest.mark.parametrize("text", ["yesterday", "", "10", "-5m", "٣m", "0001-01-01T00:00:00+23:59"])
    def test_any_other_since_is_a_wrong_command_line(self, text: str) -> None:
        with pytest.raises(click.BadParameter):
            parse_since(text, self.NOW)


class TestWaitAndCancel:
    @pytest.mark.parametrize(("phase", "code"), [("succeeded", 0), ("failed", 1), ("cancelled", 1), ("lost", 1)])
    def test_the_exit_code_is_the_result(self, tp: Tp, signed_in: ScriptedConsole, phase: str, code: int) -> None:
        signed_in.on(RUN, "", [as_json(job(phase="queued")), as_json(job(phase="running")), as_json(job(phase=phase))])
        answer = tp("job", "wait", RUN, code=code)
        assert answer.out == f"{RUN} {phase}\n"
        assert "running" in answer.err
        assert tp("job", "wait", RUN, "--json", code=code).json["phase"] == phase

    def test_a_wait_that_takes_too_long_is_one(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.add_job(phase="running")
        answer = tp("job", "wait", RUN, "--timeout", "0", code=1)
        assert "still running" in answer.err
        assert answer.out == ""

    def test_cancelling_asks_on_a_terminal(self, tp: Tp, signed_in: ScriptedConsole, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
        signed_in.add_job(phase="running")
        signed_in.on(RUN, "/cancel", as_json(job(phase="running", desired="cancel"), 202))
        monkeypatch.setattr("tuneplane.cli.job.cancel.on_terminal", lambda: True)
        answers = iter(["n", "y"])
        monkeypatch.setattr("click.termui.visible_prompt_func", lambda _text: next(answers))
        assert "nothing was done" in tp("job", "cancel", RUN, code=1).err
        assert signed_in.server.requests(f"{API}/jobs/{RUN}/cancel") == []
        assert "asked to stop" in tp("job", "cancel", RUN).err
        assert len(signed_in.server.requests(f"{API}/jobs/{RUN}/cancel")) == 1

    def test_without_a_terminal_it_needs_yes(self, tp: Tp, signed_in: ScriptedConsole, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
        signed_in.add_job(phase="running")
        monkeypatch.setattr("tuneplane.cli.job.cancel.on_terminal", lambda: False)
        assert "--yes" in tp("job", "cancel", RUN, code=2).err
        assert signed_in.server.requests(f"{API}/jobs/{RUN}/cancel") == []

    def test_nothing_shorter_than_the_full_id_is_cancelled(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.add_job(phase="running")
        assert "full run id" in tp("job", "cancel", RUN[:-1], "--yes", code=2).err
        assert signed_in.server.seen == []

    def test_what_is_over_is_refused_in_the_consoles_words(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        detail, hint = (
            f"run {RUN} is over: it succeeded, at 2026-01-01 10:00:00 UTC",
            f"tp job show {RUN} tells how it ended",
        )
        body = {"title": "conflict", "status": 409, "code": "conflict", "detail": detail, "hint": hint}
        signed_in.add_job(phase="succeeded")
        signed_in.on(RUN, "/cancel", as_json(body, 409))
        answer = tp("job", "cancel", RUN, "--yes", code=1)
        assert detail in answer.err
        assert hint in answer.err
        assert answer.out == ""
        assert json.loads(tp("job", "cancel", RUN, "--yes", "--json", code=1).err)["code"] == "conflict"

    def test_waiting_for_a_cancel_tells_the_end(self, tp: Tp, signed_in: ScriptedConsole) -> None:
        signed_in.on(RUN, "/cancel", as_json(job(phase="running", desired="cancel"), 202))
        signed_in.on(RUN, "", [as_json(job(phase="finishing")), as_json(job(phase="cancelled"))])
        assert tp("job", "cancel", RUN, "--yes", "--wait").out == f"{RUN} cancelled\n"


class TestMetrics:
    METRICS: ClassVar[dict[str, Any]] = {
        "train/loss": {"latest": {"step": 3, "value": 0.25, "time": 1.0}, "min": 0.25, "max": 4.0, "count": 3},
        "raw/x": {"latest": {"step": 1, "value": "NaN"}, "min": "-Infinity", "max": "Infinity", "count": 1},
    }

    @pytest.fixture
    def measured(self, signed_in: ScriptedConsole) -> ScriptedConsole:
        signed_in.on(RUN, "/metrics", as_json({"metrics": self.METRICS}))
        parts = [
            {"attempt": 1, "step": [1, 2, 3, 4], "value": [4.0, 2.0, 9.0, "NaN"], "time": [1, 2, 3, 4]},
            {"attempt": 2, "step": [3, 4], "value": [1.0, 0.5], "time": [5, 6]},
        ]
        signed_in.on(RUN, "/curves", as_json({"series": {"train/loss": parts}}))
        return signed_in

    def test_a_table_and_on_a_terminal_the_curve(self, tp: Tp, measured: ScriptedConsole) -> None:
        text = tp("job", "metrics", RUN).out
        assert text.splitlines()[2].split() == ["train/loss", "3", "0.25", "0.25", "4", "3"]
        assert "NaN" in text
        assert "┤" not in text
        drawn = tp("job", "metrics", RUN, "--plot").out
        assert "┤" in drawn
        assert " 4 ┤" in drawn  # the highest point; the 9.0 of attempt 1 lies behind the step attempt 2 resumed from

    def test_json_holds_the_curves_that_were_named(self, tp: Tp, measured: ScriptedConsole) -> None:
        found = tp("job", "metrics", RUN, "train/loss", "--points", "50", "--json").json
        assert [part["attempt"] for part in found["series"]["train/loss"]] == [1, 2]
        assert list(found["metrics"]) == ["train/loss"]
        (request,) = measured.server.requests(f"{API}/jobs/{RUN}/curves")
        assert request.query == {"name": ["train/loss"], "max_points": ["50"]}
        assert set(tp("job", "metrics", RUN, "--json").json["metrics"]) == set(self.METRICS)

    def test_a_metric_that_is_not_there_gets_the_nearest(self, tp: Tp, measured: ScriptedConsole) -> None:
        assert "train/loss" in tp("job", "metrics", RUN, "train/los", code=1).err


def test_samples_are_shown_with_their_reward(tp: Tp, signed_in: ScriptedConsole) -> None:
    items = [
        {
            "id": 1,
            "step": 4,
            "kind": "completion",
            "data": {"prompt": "1+1=", "completion": "2\n\x1b[2J", "reward": 0.5},
        },
        {"id": 2, "step": 5, "kind": "conversation", "data": {"messages": [{"role": "user", "content": "你好"}]}},
    ]
    signed_in.on(RUN, "/samples", as_json({"items": items, "next_cursor": None}))
    text = tp("job", "samples", RUN, "--kind", "completion", "--step", "4").out
    assert "reward 0.5" in text
    assert "user:\n    你好" in text
    assert "\x1b" not in text
    (request,) = signed_in.server.requests(f"{API}/jobs/{RUN}/samples")
    assert (request.query["kind"], request.query["step"], request.query["order"]) == (["completion"], ["4"], ["newest"])
    assert len(tp("job", "samples", RUN, "--json", "--limit", "1").json["items"]) == 1


class TestArtifacts:
    FILES: ClassVar[dict[tuple[int, str], bytes]] = {
        (1, "checkpoints/checkpoint-4/model.bin"): b"four",
        (2, "checkpoints/checkpoint-8/model.bin"): b"eight",
        (2, "checkpoints/checkpoint-12/model.bin"): b"twelve",
        (2, "notes/a.txt"): b"a",
    }

    @pytest.fixture
    def left(self, signed_in: ScriptedConsole) -> ScriptedConsole:
        files = [
            {"attempt": attempt, "path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for (attempt, path), data in self.FILES.items()
        ]
        checkpoints = [
            {"attempt": 1, "path": "checkpoints/checkpoint-4", "step": 4, "complete": True, "problem": None, "size": 4},
            {"attempt": 2, "path": "checkpoints/checkpoint-8", "step": 8, "complete": True, "problem": None, "size": 5},
            {
                "attempt": 2,
                "path": "checkpoints/checkpoint-12",
                "step": 12,
                "complete": False,
                "problem": "a shard is missing",
            },
        ]
        signed_in.on(RUN, "/artifacts", as_json({"files": files, "checkpoints": checkpoints, "out_dir": "/out"}))

        def file(request: Request) -> Reply:
            return Reply(200, self.FILES[int(request.query["attempt"][0]), request.query["path"][0]])

        signed_in.on(RUN, "/artifacts/file", file)
        return signed_in

    def test_checkpoints_say_whether_they_can_be_resumed(self, tp: Tp, left: ScriptedConsole) -> None:
        text = tp("job", "artifacts", RUN).out
        assert "not complete: a shard is missing" in text
        assert "notes/a.txt" in text
        assert len(tp("job", "artifacts", RUN, "--json").json["files"]) == 4

    def test_the_last_attempt_is_downloaded_by_default(self, tp: Tp, left: ScriptedConsole, tmp_path: Path) -> None:
        answer = tp("job", "download", RUN, "--output", tmp_path / "got")
        assert set(tree(tmp_path / "got")) == {path for attempt, path in self.FILES if attempt == 2}
        assert "3 files, 12 B" in answer.err
        assert "3 were there already" in tp("job", "download", RUN, "--output", tmp_path / "got").err

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (("--checkpoint", "latest"), {"checkpoints/checkpoint-8/model.bin"}),
            (("--checkpoint", "12"), {"checkpoints/checkpoint-12/model.bin"}),
            (("--checkpoint", "4"), {"checkpoints/checkpoint-4/model.bin"}),
            (("--attempt", "1"), {"checkpoints/checkpoint-4/model.bin"}),
            (("notes/*",), {"notes/a.txt"}),
            (
                ("*.bin", "--attempt", "2"),
                {"checkpoints/checkpoint-8/model.bin", "checkpoints/checkpoint-12/model.bin"},
            ),
        ],
    )
    def test_what_is_asked_for_is_downloaded(
        self, tp: Tp, left: ScriptedConsole, tmp_path: Path, options: tuple[str, ...], expected: set[str]
    ) -> None:
        found = tp("job", "download", RUN, *options, "-o", tmp_path / "got", "--json").json["items"]
        assert {str(Path(item["path"]).relative_to(tmp_path / "got")) for item in found} == expected
        assert all(item["verified"] for item in found)

    def test_by_default_it_goes_into_a_directory_of_the_runs_name(self, tp: Tp, left: ScriptedConsole) -> None:
        tp("job", "download", RUN, "notes/*")
        assert (Path(RUN) / "notes/a.txt").read_bytes() == b"a"

    @pytest.mark.parametrize(("options", "code"), [(("nope/*",), 1), (("--checkpoint", "99"), 1), (("--checkpoint", "best"), 2), (("--attempt", "9"), 1)])  # fmt: skip
    def test_what_is_not_there_writes_nothing(self, tp: Tp, left: ScriptedConsole, tmp_path: Path, options: tuple[str, ...], code: int) -> None:  # fmt: skip
        tp("job", "download", RUN, *options, "-o", tmp_path / "got", code=code)
        assert not (tmp_path / "got").exists()

    def test_a_name_that_leads_elsewhere_writes_nothing(self, tp: Tp, signed_in: ScriptedConsole, tmp_path: Path) -> None:  # fmt: skip
        files = [{"attempt": 1, "path": name, "size": 1, "sha256": None} for name in ("good.txt", "../evil.txt")]
        signed_in.on(RUN, "/artifacts", as_json({"files": files, "checkpoints": []}))
        signed_in.on(RUN, "/artifacts/file", Reply(200, b"x"))
        assert "../evil.txt" in tp("job", "download", RUN, "-o", tmp_path / "got", code=1).err
        assert not (tmp_path / "evil.txt").exists()
        assert not (tmp_path / "got").exists()

    def test_a_disk_without_room_is_told_before_the_first_byte(self, tp: Tp, signed_in: ScriptedConsole, tmp_path: Path) -> None:  # fmt: skip
        files = [{"attempt": 1, "path": "huge", "size": 10**18, "sha256": None}]
        signed_in.on(RUN, "/artifacts", as_json({"files": files, "checkpoints": []}))
        assert "free" in tp("job", "download", RUN, "-o", tmp_path / "got", code=1).err
        assert signed_in.server.requests(f"{API}/jobs/{RUN}/artifacts/file") == []


def test_the_page_of_a_job_is_printed_and_opened_on_a_desktop_only(
    tp: Tp, signed_in: ScriptedConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    address = f"{signed_in.url}/jobs/{RUN}"
    assert tp("job", "open", RUN).out == f"{address}\n"
    assert opened == []
    monkeypatch.setenv("DISPLAY", ":0")
    tp("job", "open", RUN, "--print")
    assert opened == []
    tp("job", "open", RUN)
    assert opened == [address]
