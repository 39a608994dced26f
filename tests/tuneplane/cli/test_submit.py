"""`tp submit`: what is sent, what is refused and with which reasons, and that the lab stays as it was."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.services.ports import free_port
from tests.tuneplane.cli.conftest import Tp, tree
from tests.tuneplane.cli.scripted_console import API, RUN, ScriptedConsole, job
from tests.tuneplane.client.scripted_server import Reply, as_json, problem
from tuneplane.contract.jobspec import JobSpec

CONFIG = "experiments/first/config.yaml"


@pytest.fixture
def ready(lab: Path, signed_in: ScriptedConsole) -> ScriptedConsole:
    """A lab to submit from, and a console that takes packages."""
    signed_in.expect_packages()
    return signed_in


def test_a_submission_sends_the_package_once_and_a_jobspec_the_contract_takes(tp: Tp, ready: ScriptedConsole) -> None:
    answer = tp("submit", "first", "--profile", "h200:16", "--set", "learning_rate=1e-4", "--name", "try 1")
    assert answer.out == f"{RUN}\n"
    assert f"{ready.url}/jobs/{RUN}" in answer.err
    ((key, raw),) = ready.submitted
    spec = JobSpec.model_validate(raw)
    assert len(key) >= 16
    assert (spec.metadata.name, spec.metadata.project, spec.metadata.display_name) == ("first", "demo", "try 1")
    assert spec.spec.hyperparams == {"learning_rate": 1e-4}
    assert (spec.spec.resources.pools[0].nodes, spec.spec.resources.pools[0].gpus_per_node) == (2, 8)
    (digest,) = ready.packages
    assert spec.provenance.package_digest == digest
    with tarfile.open(fileobj=io.BytesIO(ready.packages[digest])) as archive:
        assert "experiments/first/train.py" in archive.getnames()

    tp("submit", "first", "--profile", "cpu", "--yes")
    assert len([request for request in ready.server.seen if request.method == "PUT"]) == 1
    assert len({key for key, _raw in ready.submitted}) == 2


def test_a_submission_never_dirties_the_lab(tp: Tp, ready: ScriptedConsole) -> None:
    lab = Path.cwd()
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "one"]):
        subprocess.run(["git", *arguments], check=True)
    os.utime(lab / CONFIG, (1, 1))  # git would refresh its index for this
    before = tree(lab)
    tp("submit", "first", "--profile", "cpu")
    tp("submit", "first", "--profile", "cpu", "--dry-run")
    tp("submit", "first", "--profile", "nope", code=3)
    assert tree(lab) == before
    spec = ready.submitted[0][1]
    assert spec["provenance"]["git_dirty"] is False
    assert len(spec["provenance"]["git_commit"]) == 40


def test_what_is_sent_and_what_is_not_is_told_before(tp: Tp, ready: ScriptedConsole) -> None:
    for number in range(7):
        Path(f"common/{number}.pyc").touch()
    err = tp("submit", "first", "--profile", "cpu").err
    assert err.startswith("package: 11 files, ")
    assert "left out: common/0.pyc (cache)" in err
    assert "left out: 2 more" in err


def test_json_is_the_job(tp: Tp, ready: ScriptedConsole) -> None:
    answer = tp("submit", "first", "--profile", "cpu", "--json")
    assert answer.json["id"] == RUN
    assert answer.err == ""


def test_options_reach_the_jobspec(tp: Tp, ready: ScriptedConsole) -> None:
    tp(
        "submit", "first", "-p", "cpu", "--cpus", "4", "--memory-gb", "8", "--model", "hf:Qwen/Qwen3-0.6B@main",
        "--train-data", "me/chats@1", "--validation-data", "/data/v", "--volume", "me/cache", "--image", "trl:1.16",
        "--observability-url", "https://curves.example", "--env", "ODD=a=b 'c' \"d\"\n$HOME", "--env", "EMPTY=",
        "--secret", "HF_TOKEN", "--label", "team=x", "--priority", "-5", "--max-duration", "2h", "--grace", "90s",
        "--retries", "infra=1,platform=2", "--then-export", "merged", "--init-from", f"run/{RUN}/checkpoint@step=4",
    )  # fmt: skip
    spec = JobSpec.model_validate(ready.submitted[0][1]).spec
    pool = spec.resources.pools[0]
    assert (pool.cpus, pool.memory_gb) == (4, 8.0)
    assert spec.model.base == "hf:Qwen/Qwen3-0.6B@main"
    assert spec.model.init_from == f"run/{RUN}/checkpoint@step=4"
    assert spec.data.train is not None
    assert spec.data.validation is not None
    assert (spec.data.train.dataset, spec.data.validation.path) == ("me/chats@1", "/data/v")
    assert spec.data.volumes == ["me/cache"]
    assert spec.env == {"ODD": "a=b 'c' \"d\"\n$HOME", "EMPTY": ""}
    assert spec.secrets == ["HF_TOKEN"]
    assert spec.priority == -5
    assert (spec.limits.max_duration, spec.limits.grace) == (7200, 90)
    assert (spec.limits.retries.infra, spec.limits.retries.platform) == (1, 2)
    assert spec.lifecycle.on_success == [{"export": {"merge_lora": True}}]


WRONG = [
    (("--profile", "h200:0"), "profile-invalid", "at least 1"),
    (("--profile", "H200:4"), "profile-unknown", "h200"),
    (("--profile", "h200:12"), "pool-impossible", "multiple of 8"),
    (("--profile", "h200:٤"), "profile-invalid", "ASCII"),
    (("--profile", "=h200"), "profile-invalid", "roles"),
    (("--profile", "h300"), "profile-unknown", "cpu, h200"),
    ((), "profile-invalid", "cpu, h200"),
    (("--profile", "h200", "--profile", "h200"), "roles-invalid", "roles"),
    (("-p", "cpu", "--image", "nonsense"), "spec-invalid", "name:tag"),
    (("-p", "cpu", "--image", "--rm"), "spec-invalid", "name:tag"),
    (("-p", "cpu", "--model", "Qwen/Qwen3-0.6B"), "model-missing", "hf:Qwen/Qwen3-0.6B"),
    (("-p", "cpu", "--model", "experiments"), "model-missing", "whole path"),
    (("-p", "cpu", "--model", "/a/../b"), "model-missing", "absolute path"),
    (("-p", "cpu", "--train-data", "chats"), "data-missing", "@<version>"),
    (("-p", "cpu", "--train-data", "me/chats"), "data-missing", "@<version>"),
    (("-p", "cpu", "--env", "TUNEPLANE_RUN_ID=x"), "env-reserved", "TUNEPLANE_RUN_ID"),
    (("-p", "cpu", "--env", "HF_HOME=x"), "env-reserved", "HF_HOME"),
    (("-p", "cpu", "--env", "1X=x"), "request-invalid", "NAME=VALUE"),
    (("-p", "cpu", "--env", "X"), "request-invalid", "NAME=VALUE"),
    (("-p", "cpu", "--set", "seed=nan"), "param-type", "seed"),
    (("-p", "cpu", "--set", "sed=1"), "param-unknown", "seed"),
    (("-p", "cpu", "--set", "learning_rate=inf"), "number-not-finite", "learning_rate"),
    (("-p", "cpu", "--max-duration", "soon"), "limit-invalid", "30m"),
    (("-p", "cpu", "--max-duration", "0"), "limit-invalid", "30m"),
    (("-p", "cpu", "--retries", "luck=1"), "limit-invalid", "infra"),
    (("-p", "cpu", "--retries", "infra=99"), "limit-invalid", "20"),
    (("-p", "cpu", "--observability-url", "ftp://x"), "observability-url", "http"),
    (("-p", "cpu", "--observability", "external"), "observability-url", "--observability-url"),
    (("-p", "cpu", "--label", "x"), "request-invalid", "name=value"),
]


@pytest.mark.parametrize(("options", "code", "words"), WRONG, ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")  # fmt: skip
def test_a_wrong_option_is_refused_and_nothing_is_sent(
    tp: Tp, ready: ScriptedConsole, options: tuple[str, ...], code: str, words: str
) -> None:
    answer = tp("submit", "first", *options, code=3)
    assert answer.out == ""
    assert answer.err.startswith("refused")
    assert f"[{code}]" in answer.err
    assert words in answer.err
    assert ready.submitted == []
    assert ready.packages == {}


def test_what_is_wrong_here_and_there_is_told_together_each_once(tp: Tp, ready: ScriptedConsole) -> None:
    Path(CONFIG).write_text("learning_rat: 1e-4\n")
    ready.refusals = [
        {"code": "quota", "message": "no GPUs left for you", "field": "spec.resources"},
        {"code": "data-missing", "message": "there is no data set", "field": "spec.data.train.dataset"},
        {"code": "model-missing", "message": "the model is not there", "field": "spec.model.base"},
    ]
    answer = tp("submit", "first", "--profile", "h300:8", "--image", "x", "--model", "gone", "--json", code=3)
    codes = [item["code"] for item in answer.problem["refusals"]]
    assert codes == ["param-unknown", "model-missing", "spec-invalid", "profile-unknown", "data-missing"]


def test_a_refused_job_is_not_uploaded_first(tp: Tp, ready: ScriptedConsole) -> None:
    ready.refusals = [{"code": "catalog-mismatch", "message": "digest differs", "hint": "tp recipe lock first"}]
    answer = tp("submit", "first", "--profile", "cpu", code=3)
    assert "tp recipe lock first" in answer.err
    assert ready.packages == {}


def test_a_job_refused_at_the_last_moment_is_refused(tp: Tp, ready: ScriptedConsole) -> None:
    tp("submit", "first", "--profile", "cpu")
    ready.refusals = [{"code": "quota", "message": "none left"}]
    assert "none left" in tp("submit", "first", "--profile", "cpu", code=3).err


def test_not_logged_in_is_four_and_a_broken_experiment_still_three(tp: Tp, lab: Path) -> None:
    answer = tp("submit", "first", "--profile", "cpu", code=4)
    assert "tp login" in answer.err
    assert "[profile-invalid]" in tp("submit", "first", "--profile", "h200:0", code=3).err
    Path(CONFIG).write_text("nope: 1\n")
    assert "[param-unknown]" in tp("submit", "first", "--profile", "cpu", code=3).err


def test_a_console_that_is_down_is_five(tp: Tp, lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNEPLANE_TOKEN", "t")
    url = f"http://127.0.0.1:{free_port()}"
    assert url in tp("submit", "first", "--profile", "cpu", "--server", url, code=5).err


def test_secrets_links_and_large_files_stop_it_before_anything_is_sent(tp: Tp, ready: ScriptedConsole) -> None:
    common = Path("common")
    (common / ".netrc").write_text("x")
    (common / "link").symlink_to("/etc/passwd")
    large = common / "weights.bin"
    large.touch()
    os.truncate(large, 2 * 1024**3)
    answer = tp("submit", "first", "--profile", "cpu", "--json", code=3)
    codes = {item["code"] for item in answer.problem["refusals"]}
    assert codes == {"package-secret", "package-link", "package-too-large"}
    assert [request.method for request in ready.server.seen if request.method == "PUT"] == []
    for path in common.iterdir():
        path.unlink()
    (common / "notes.md").write_text("one\nhf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ2bC4dF6h")
    answer = tp("submit", "first", "--profile", "cpu", code=3)
    assert "common/notes.md:2" in answer.err
    assert ready.packages == {}
    assert ready.submitted == []


def test_a_large_package_is_asked_about_on_a_terminal_only(
    tp: Tp, ready: ScriptedConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuneplane.cli.submit.ASK_ABOVE_BYTES", 10)
    monkeypatch.setattr("tuneplane.cli.submit.on_terminal", lambda: True)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _text: "n")
    assert "nothing was done" in tp("submit", "first", "--profile", "cpu", code=1).err
    assert ready.packages == {}
    tp("submit", "first", "--profile", "cpu", "--yes")
    assert len(ready.submitted) == 1


def test_the_exit_code_of_wait_is_the_result(tp: Tp, ready: ScriptedConsole) -> None:
    reason = {"code": "trainer-failed", "text": "exit code 7", "hint": "look at the log"}
    for phase, code in (("succeeded", 0), ("failed", 1), ("cancelled", 1), ("lost", 1)):
        over = as_json(job(phase=phase, reason=reason if code else None))
        ready.server.answers[f"{API}/jobs/{RUN}"] = [as_json(job(phase="running")), over]
        answer = tp("submit", "first", "--profile", "cpu", "--wait", code=code)
        assert answer.out.startswith(f"{RUN} {phase}")
        assert ("look at the log" in answer.out) is bool(code)


def test_follow_shows_the_output_and_ends_with_the_result(tp: Tp, ready: ScriptedConsole) -> None:
    ready.server.answers[f"{API}/jobs/{RUN}"] = as_json(job(phase="succeeded"))
    ready.server.answers[f"{API}/jobs/{RUN}/logs"] = [
        as_json({"items": [{"text": "one"}], "next_cursor": "a", "more": True, "end": False}),
        as_json({"items": [], "next_cursor": "b", "more": False, "end": False}),
        as_json({"items": [{"text": "two"}], "next_cursor": "c", "more": False, "end": True}),
    ]
    answer = tp("submit", "first", "--profile", "cpu", "--follow")
    assert answer.out == f"one\ntwo\n{RUN} succeeded\n"


class TestDryRun:
    def test_offline_it_shows_everything_but_the_console(self, tp: Tp, lab: Path) -> None:
        answer = tp("submit", "first", "--profile", "h200:16", "--set", "max_steps=3", "--dry-run")
        assert "not asked: no server is known yet" in answer.out
        assert "assumed" in answer.out
        assert "python3 -m accelerate.commands.launch" in answer.out
        assert "TUNEPLANE_RECIPE" in answer.out
        assert '"max_steps": 3' in answer.out
        assert "experiments/first/train.py" in answer.out
        assert answer.err == ""

    def test_json_holds_jobspec_admission_plan_and_package(self, tp: Tp, ready: ScriptedConsole) -> None:
        found: dict[str, Any] = tp("submit", "first", "--profile", "h200:8", "--dry-run", "--json").json
        assert JobSpec.model_validate(found["jobspec"]).provenance.package_digest == found["package"]["digest"]
        assert found["admission"] == {"asked": True, "why_not": None, "admitted": True, "refusals": [], "plan": None}
        assert found["plan"]["command"][0] == "python3"
        assert "config.json" in found["plan"]["files"]
        assert {file["name"] for file in found["package"]["files"]} >= {"tuneplane.yaml", CONFIG}
        assert ready.submitted == []
        assert ready.packages == {}

    def test_the_plan_of_the_console_comes_first(self, tp: Tp, ready: ScriptedConsole) -> None:
        plan = {
            "image": "trl:1.16", "runtime_id": "trl-1.16", "pools": [], "env": {"X": "1"},
            "argv_preview": ["python", "train.py"], "files": {"config.json": "{}"},
        }  # fmt: skip
        ready.server.answers[f"{API}/jobs"] = as_json({"admitted": True, "refusals": [], "plan": plan})
        found = tp("submit", "first", "--profile", "cpu", "--dry-run", "--json").json["plan"]
        assert found["command"] == ["python", "train.py"]
        assert found["env"]["X"] == "1"
        assert found["files"] == {"config.json": "{}"}
        assert "image: trl:1.16" in tp("submit", "first", "--profile", "cpu", "--dry-run").out

    def test_a_refusal_is_three_after_everything_was_shown(self, tp: Tp, ready: ScriptedConsole) -> None:
        ready.refusals = [{"code": "quota", "message": "none left"}]
        answer = tp("submit", "first", "--profile", "cpu", "--dry-run", code=3)
        assert '"kind": "TrainingJob"' in answer.out
        assert "none left" in answer.err
        assert tp("submit", "first", "--profile", "h200:12", "--dry-run", code=3).err.count("h200") >= 1

    def test_a_broken_experiment_is_told_with_what_could_be_worked_out(self, tp: Tp, lab: Path) -> None:
        Path(CONFIG).write_text("a: [\n")
        answer = tp("submit", "first", "--profile", "cpu", "--dry-run", "--json", code=3)
        assert answer.json["jobspec"] is None
        assert answer.problem["refusals"][0]["code"] == "yaml-invalid"

    def test_secrets_in_files_are_found_without_sending(self, tp: Tp, lab: Path) -> None:
        Path("common/a.txt").write_text("AKIA" + "Q3EXB7ZKD52MPLRT")
        assert "[package-secret]" in tp("submit", "first", "--profile", "cpu", "--dry-run", code=3).err

    def test_what_would_come_of_it_is_told(self, tp: Tp, ready: ScriptedConsole) -> None:
        approval = {"text": "olga has to approve it before it starts", "rules": []}
        waiting = {"kind": "cards", "text": "needs 8 h200 on one node; none free"}
        ready.server.answers[f"{API}/jobs"] = as_json({"admitted": True, "approval": approval, "waiting": waiting})
        out = tp("submit", "first", "--profile", "cpu", "--dry-run").out
        assert f"admitted\n{approval['text']}\n{waiting['text']}\n" in out
        found = tp("submit", "first", "--profile", "cpu", "--dry-run", "--json").json["admission"]
        assert (found["approval"], found["waiting"]) == (approval, waiting)

    @pytest.mark.parametrize("reply", [Reply(500, b""), Reply(200, b"[]"), problem(503, "unavailable")])
    def test_an_odd_console_costs_only_its_answer(self, tp: Tp, ready: ScriptedConsole, reply: Reply) -> None:
        ready.server.answers[f"{API}/hardware"] = reply
        answer = tp("submit", "first", "--profile", "cpu", "--dry-run")
        assert "not asked: " in answer.out


def test_a_submission_whose_answer_was_lost_is_one_job(tp: Tp, ready: ScriptedConsole) -> None:
    tp("submit", "first", "--profile", "cpu")
    seen: list[str] = []

    def lose_first(request: Any) -> Reply:
        if request.query.get("dry_run"):
            return as_json({"admitted": True})
        seen.append(request.headers["idempotency-key"])
        if len(seen) == 1:
            raise ConnectionAbortedError
        return as_json(job(phase="queued"), 201)

    ready.server.answers[f"{API}/jobs"] = lose_first
    assert tp("submit", "first", "--profile", "cpu").out == f"{RUN}\n"
    assert len(seen) == 2
    assert len(set(seen)) == 1


def test_a_marker_of_the_jobspec_never_holds_a_token(tp: Tp, ready: ScriptedConsole) -> None:
    tp("submit", "first", "--profile", "cpu")
    assert ready.token not in json.dumps(ready.submitted)
