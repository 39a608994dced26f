"""`tp export`: what it asks for, what it prints, and what a dry run shows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tuneplane.cli.conftest import Tp
from tests.tuneplane.cli.scripted_console import API, RUN, ScriptedConsole, job
from tests.tuneplane.client.scripted_server import as_json, problem

NEW = "06h2h3tgq73w5xjz"
ACTION = {
    "kind": "export",
    "source": f"run/{RUN}/checkpoint@step=8,attempt=1",
    "name": "step-8-merged",
    "merge_lora": True,
}
SPEC = {
    "spec": {
        "action": {**ACTION, "dtype": "bfloat16"},
        "resources": {"pools": [{"name": "main", "series": "cpu", "cpus": 4, "memory_gb": 8}]},
    }
}
MADE = job(NEW, phase="queued", origin={"id": RUN, "kind": "export"}, spec={"spec": {"action": ACTION}})
PLAN = {
    "image": "trl:1.16",
    "runtime_id": "trl-1.16",
    "argv_preview": ["python3", "$TUNEPLANE_WORK_DIR/export/export_start.py", "--source", "/srv/a b"],
    "env": {"PYTHONUNBUFFERED": "1"},
    "files": {"export/export_start.py": "…"},
}


def sent(console: ScriptedConsole) -> list[Any]:
    return [request for request in console.server.seen if request.path.startswith(f"{API}/jobs/{RUN}/export")]


def test_it_prints_the_id_of_the_new_run(tp: Tp, signed_in: ScriptedConsole) -> None:
    signed_in.add_job()
    signed_in.on(RUN, "/export", lambda _request: as_json(MADE, 201))
    answer = tp("export", RUN[:8], "--step", "8", "--merge-lora", "--dtype", "bfloat16", "--cpus", "2")
    assert answer.out == f"{NEW}\n"
    assert f"a new run, which exports {ACTION['source']} to exports/step-8-merged" in answer.err
    (request,) = sent(signed_in)
    assert json.loads(request.body) == {"step": 8, "merge_lora": True, "dtype": "bfloat16", "cpus": 2}
    assert len(request.headers["idempotency-key"]) == 36


def test_nothing_is_asked_for_that_was_not_said(tp: Tp, signed_in: ScriptedConsole) -> None:
    signed_in.on(RUN, "/export", lambda _request: as_json(MADE, 201))
    assert tp("export", RUN, "--json").json["id"] == NEW
    assert json.loads(sent(signed_in)[0].body) == {}


def test_waiting_gives_the_result_as_exit_code(tp: Tp, signed_in: ScriptedConsole) -> None:
    signed_in.on(RUN, "/export", lambda _request: as_json(MADE, 201))
    signed_in.add_job(NEW, phase="failed")
    assert "failed" in tp("export", RUN, "--wait", code=1).out


def test_a_dry_run_shows_the_exact_command(tp: Tp, signed_in: ScriptedConsole) -> None:
    answer = {"admitted": True, "refusals": [], "plan": PLAN, "approval": None, "waiting": None, "jobspec": SPEC}
    signed_in.on(RUN, "/export", lambda _request: as_json(answer))
    shown = tp("export", RUN, "--dry-run").out
    assert (
        "cd $TUNEPLANE_WORK_DIR/export\npython3 $TUNEPLANE_WORK_DIR/export/export_start.py --source '/srv/a b'" in shown
    )
    for text in ("admitted", "exports/step-8-merged", "bfloat16", "trl:1.16", "File export/export_start.py"):
        assert text in shown
    assert tp("export", RUN, "--dry-run", "--json").json["plan"]["argv_preview"] == PLAN["argv_preview"]
    assert sent(signed_in)[0].query == {"dry_run": ["true"]}


def test_a_refusal_of_a_dry_run_is_three_after_everything_was_shown(tp: Tp, signed_in: ScriptedConsole) -> None:
    refusal = {"code": "export-impossible", "message": "it holds no LoRA adapter", "field": "spec.action.merge_lora"}
    answer = {"admitted": False, "refusals": [refusal], "plan": {**PLAN, "argv_preview": None}, "jobspec": SPEC}
    signed_in.on(RUN, "/export", lambda _request: as_json(answer))
    shown = tp("export", RUN, "--dry-run", code=3)
    assert "refused; the reasons follow" in shown.out
    assert "it holds no LoRA adapter" in shown.err


def test_what_the_console_refuses_is_three(tp: Tp, signed_in: ScriptedConsole) -> None:
    said = problem(422, "checkpoint-missing", "run X has no complete checkpoint to export", hint="tp job wait X")
    signed_in.on(RUN, "/export", lambda _request: said)
    answer = tp("export", RUN, code=3)
    assert "has no complete checkpoint to export" in answer.err
    assert "→ tp job wait X" in answer.err


@pytest.mark.parametrize(
    "arguments", [["--step", "-1"], ["--step", "x"], ["--dtype", "int4"], ["--cpus", "0"], ["--memory-gb", "nan"], ["--no-such"]]
)  # fmt: skip
def test_bad_options_are_usage_errors(tp: Tp, signed_in: ScriptedConsole, arguments: list[str]) -> None:
    tp("export", RUN, *arguments, code=2)
    assert sent(signed_in) == []


def test_artifacts_show_an_export_and_show_links_both_runs(tp: Tp, signed_in: ScriptedConsole) -> None:
    found = {
        "files": [{"attempt": 1, "path": "exports/step-8/config.json", "size": 10, "sha256": None}],
        "checkpoints": [],
        "exports": [{"attempt": 1, "name": "step-8", "path": "exports/step-8", "files": 5, "size": 2048}],
    }
    signed_in.on(RUN, "/artifacts", lambda _request: as_json(found))
    assert "exports/step-8\n" in tp("job", "artifacts", RUN).out
    signed_in.add_job(origin={"id": NEW, "kind": "export"})
    shown = tp("job", "show", RUN).out
    assert f"{NEW}, whose checkpoint it exports" in shown
    assert f"tp submit first --model run/{RUN}/export" in shown
    signed_in.add_job(followers=[{"id": NEW, "kind": "export", "phase": "queued"}])
    assert "the run that exports a checkpoint of it" in tp("job", "show", RUN).out
