"""Reports are read when a run's artifacts are registered; one run's, many, and several side by side over HTTP."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane_server.evaluation.build import evaluated, finish, make_runtime, report, task
from tests.tuneplane_server.harness import ON_SQLITE, Api, Harness, jobspec
from tuneplane_server.features.accounts.principal import Principal


async def get(api: Api, principal: Principal, path: str, status: int = 200) -> Any:
    client = await api.client(principal)
    async with client:
        answer = await client.get(f"/api/v1{path}")
    assert answer.status_code == status, answer.text
    return answer.json()


async def compared(api: Api, principal: Principal, *runs: str, status: int = 200, **more: Any) -> Any:
    query = "&".join([*(f"run={run}" for run in runs), *(f"{name}={value}" for name, value in more.items())])
    return await get(api, principal, f"/evaluations/compare?{query}", status)


async def test_the_report_of_a_run_is_there_when_it_has_ended(api: Api, ada: Principal) -> None:
    job = await api.harness.running_job(ada, jobspec(model={"base": "hf:Qwen/Qwen3-0.6B"}))
    early = await get(api, ada, f"/jobs/{job}/evaluation", 404)
    assert "running" in early["hint"]
    await finish(api.harness, job, report(task("gsm8k", 0.4, 0.02, pack="gsm8k"), settings={"limit": 600}))
    found = await get(api, ada, f"/jobs/{job}/evaluation")
    assert (found["run"], found["attempt"], found["owner"], found["problem"]) == (job, 1, "ada", None)
    assert found["model"] == {
        "ref": "hf:Qwen/Qwen3-0.6B", "run": None, "step": None, "name": "Qwen/Qwen3-0.6B", "revision": None,
        "parameters": 596, "chat_template": True,
    }  # fmt: skip
    assert (found["score"], found["task_count"], found["confidence"]) == (0.4, 1, 0.95)
    assert found["settings"]["limit"] == 600
    (only,) = found["tasks"]
    assert (only["task"], only["n"], only["version"], only["pack"]) == ("gsm8k", 600, "1.0", "gsm8k")
    assert only["figures"][0]["low"] == pytest.approx(0.4 - 1.95996 * 0.02, abs=1e-5)
    assert found["heads"][0]["value"] == 0.4


async def test_a_broken_report_is_a_problem_of_the_run_and_nothing_else(api: Api, ada: Principal) -> None:
    job = await evaluated(api.harness, ada, b'{"apiVersion": ')
    found = await get(api, ada, f"/jobs/{job}/evaluation")
    assert found["problem"]["code"] == "not-json"
    assert "evaluations/report.json is not JSON" in found["problem"]["text"]
    assert (found["tasks"], found["score"], found["runner"]) == ([], None, None)
    good = await evaluated(api.harness, ada)
    refused = await compared(api, ada, good, job, status=422)
    assert refused["code"] == "evaluation-unreadable"
    assert job in refused["detail"]


async def test_a_run_without_a_report_says_how_to_get_one(api: Api, ada: Principal) -> None:
    job = await api.harness.running_job(ada)
    await finish(api.harness, job, None)
    missing = await get(api, ada, f"/jobs/{job}/evaluation", 404)
    assert missing["code"] == "not-found"
    assert f"tp eval {job}" in missing["hint"]
    assert (await get(api, ada, "/evaluations"))["items"] == []


async def test_a_failed_run_keeps_the_report_it_wrote_and_each_attempt_its_own(api: Api, ada: Principal) -> None:
    harness = api.harness
    job = await harness.running_job(ada, jobspec(limits={"retries": {"user": 1}}))
    await finish(harness, job, report(task(value=0.1)), "failed")
    harness.time.pass_(3600)  # the rest before a further attempt
    await harness.round(3)
    assert (await harness.job(job)).attempt == 2
    assert (await get(api, ada, f"/jobs/{job}/evaluation"))["attempt"] == 1
    await finish(harness, job, report(task(value=0.2)))
    assert (await get(api, ada, f"/jobs/{job}/evaluation"))["score"] == 0.2
    assert (await get(api, ada, f"/jobs/{job}/evaluation?attempt=1"))["score"] == 0.1
    await get(api, ada, f"/jobs/{job}/evaluation?attempt=3", 404)
    assert [(item["run"], item["attempt"]) for item in (await get(api, ada, "/evaluations"))["items"]] == [
        (job, 2),
        (job, 1),
    ]


async def test_to_register_again_changes_nothing_and_takes_in_what_changed(harness: Harness, ada: Principal) -> None:
    """The reaper may be killed between two steps and do one twice."""
    job_id = await evaluated(harness, ada)
    job, service = await harness.job(job_id), harness.services.evaluations
    await service.register(job, harness.out(job))
    assert len(await service.attempts(job_id)) == 1
    (harness.out(job) / "evaluations/report.json").unlink()
    await service.register(job, harness.out(job))
    assert await service.attempts(job_id) == []


async def test_the_checkpoint_that_was_evaluated_is_known(api: Api, ada: Principal) -> None:
    """`run/<id>/checkpoint` names the newest one; the path that the job was given says of which step it is."""
    harness = api.harness
    trained = await harness.running_job(ada)
    out = harness.out(await harness.job(trained))
    for step in (100, 200):
        put_checkpoint(out / f"checkpoints/checkpoint-{step}", step)
    await finish(harness, trained, None)
    where = str(out / "checkpoints/checkpoint-200")
    newest = await evaluated(
        harness,
        ada,
        report(model={"name": where, "given": True}),
        model={"init_from": f"run/{trained}/checkpoint"},
    )
    named = await evaluated(harness, ada, model={"init_from": f"run/{trained}/checkpoint@step=100"})
    models = [(await get(api, ada, f"/jobs/{run}/evaluation"))["model"] for run in (newest, named)]
    assert [(item["run"], item["step"]) for item in models] == [(trained, 200), (trained, 100)]
    by_run = await get(api, ada, f"/evaluations?model={trained.upper()}")
    assert [item["run"] for item in by_run["items"]] == [named, newest]
    by_ref = await get(api, ada, f"/evaluations?model=run/{trained}/checkpoint")
    assert [item["run"] for item in by_ref["items"]] == [newest]
    # A job cannot claim the checkpoint of another run.
    lying = await evaluated(harness, ada, report(model={"name": where}), model={"base": "hf:Qwen/Qwen3-0.6B"})
    assert (await get(api, ada, f"/jobs/{lying}/evaluation"))["model"]["run"] is None


async def test_evaluations_are_listed_by_pages_project_and_model(api: Api, ada: Principal) -> None:
    harness = api.harness
    runs = [await evaluated(harness, ada, report(task(value=number / 10))) for number in range(3)]
    other = jobspec()
    other["metadata"]["project"] = "elsewhere"
    elsewhere = await harness.running_job(ada, other)
    await finish(harness, elsewhere, report(model={"name": "gpt2"}))
    first = await get(api, ada, "/evaluations?limit=3")
    assert [item["run"] for item in first["items"]] == [elsewhere, *reversed(runs[1:])]
    assert "tasks" not in first["items"][0]
    second = await get(api, ada, f"/evaluations?limit=3&cursor={first['next_cursor']}")
    assert ([item["run"] for item in second["items"]], second["next_cursor"]) == ([runs[0]], None)
    for query in ("project=elsewhere", "project=ada/elsewhere", "project=@ada/elsewhere", "model=gpt2"):
        assert [item["run"] for item in (await get(api, ada, f"/evaluations?{query}"))["items"]] == [elsewhere], query
    assert (await get(api, ada, "/evaluations?project=bob/elsewhere"))["items"] == []


async def test_two_models_side_by_side(api: Api, ada: Principal) -> None:
    base = await evaluated(api.harness, ada, report(task("arc", 0.50, 0.02), task("mmlu", 0.60, 0.01)))
    other = await evaluated(api.harness, ada, report(task("arc", 0.60, 0.02), task("mmlu", 0.605, 0.01)))
    found = await compared(api, ada, base, other)
    assert (found["confidence"], [item["run"] for item in found["runs"]]) == (0.95, [base, other])
    arc, mmlu = found["rows"]
    reach = 1.959964 * math.hypot(0.02, 0.02)
    assert arc["cells"][1]["difference"] == {
        "delta": pytest.approx(0.1),
        "low": pytest.approx(0.1 - reach, abs=1e-6),
        "high": pytest.approx(0.1 + reach, abs=1e-6),
        "significant": True,
        "better": True,
        "few": False,
    }
    assert arc["cells"][0]["difference"] is None
    assert mmlu["cells"][1]["difference"]["significant"] is False
    strict = await compared(api, ada, base, other, confidence=0.9999)
    assert strict["rows"][0]["cells"][1]["difference"]["significant"] is False


async def test_what_was_not_measured_alike_is_not_compared_and_says_why(api: Api, ada: Principal) -> None:
    base = await evaluated(api.harness, ada, report(task("arc"), task("gsm8k")))
    settings = {"apply_chat_template": False, "limit": 100}
    other = await evaluated(
        api.harness, ada, report(task("arc", version="2.0", num_fewshot=25, n=100), settings=settings)
    )
    arc, gsm8k = (await compared(api, ada, base, other))["rows"]
    cell = arc["cells"][1]
    assert (cell["value"], cell["difference"]) == (0.5, None)
    assert [item["setting"] for item in cell["mismatches"]] == ["version", "num_fewshot", "chat_template", "limit"]
    assert cell["mismatches"][0] | {"text": ""} == {"setting": "version", "base": "1.0", "other": "2.0", "text": ""}
    assert "1.0, 2.0" in cell["mismatches"][0]["text"]
    assert gsm8k["cells"][1]["value"] is None


async def test_gates_judge_the_report_and_leave_the_run_alone(api: Api, ada: Principal) -> None:
    gates = [
        {"metric": "validation/arc/acc", "min": 0.4},
        {"metric": "validation/arc/acc", "max": 0.49},
        {"metric": "validation/mmlu/acc", "min": 0.1},
        {"metric": "validation/score", "min": 0.5, "max": 0.5},
    ]
    make_runtime(api.harness)
    spec = {"method": "evalkit/benchmark", "evaluation": {"gates": gates}}
    job = await evaluated(api.harness, ada, report(task("arc", 0.5, 0.02)), **spec)
    found = (await get(api, ada, f"/jobs/{job}/evaluation"))["gates"]
    assert [(gate["state"], gate["value"], gate["certain"]) for gate in found] == [
        ("passed", 0.5, True),
        ("failed", 0.5, False),
        ("missing", None, None),
        ("passed", 0.5, None),
    ]
    assert found[0] | {"state": ""} == {
        "metric": "validation/arc/acc", "min": 0.4, "max": None, "state": "", "value": 0.5, "certain": True,
    }  # fmt: skip
    broken = await evaluated(api.harness, ada, b"[]", **spec)
    states = [gate["state"] for gate in (await get(api, ada, f"/jobs/{broken}/evaluation"))["gates"]]
    assert states == ["missing"] * 4


@ON_SQLITE
@pytest.mark.parametrize(
    ("method", "evaluation", "said"),
    [
        ("custom/custom", {"gates": [{"metric": "validation/score", "min": 0.5}]}, "leaves no evaluation report"),
        ("evalkit/benchmark", {"gates": [{"metric": "validation/score", "max_regression": 0.1}]}, "max_regression"),
        ("evalkit/benchmark", {"gates": [{"metric": "validation/score"}]}, "has no bound"),
        ("evalkit/benchmark", {"gates": [{"metric": "validation/score", "min": 2, "max": 1}]}, "could never pass"),
        ("evalkit/benchmark", {"suites": ["general"]}, "evaluations that follow a run"),
        ("evalkit/benchmark", {"on_checkpoint": {"every_steps": 10}}, "evaluations that follow a run"),
    ],
)
async def test_a_gate_that_would_judge_nothing_is_refused(
    api: Api, ada: Principal, method: str, evaluation: dict[str, Any], said: str
) -> None:
    make_runtime(api.harness)
    client = await api.client(ada)
    async with client:
        answer = await client.post("/api/v1/jobs", json=jobspec(method, evaluation=evaluation))
    assert answer.status_code == 422
    assert [said in refusal["message"] for refusal in answer.json()["refusals"]] == [True]


async def test_nobody_sees_what_is_not_theirs(api: Api, ada: Principal) -> None:
    harness = api.harness
    bob, root = await harness.user("bob"), await harness.user("root", admin=True)
    await harness.bring_package(bob)
    hers, his = await evaluated(harness, ada), await evaluated(harness, bob)
    await get(api, bob, f"/jobs/{hers}/evaluation", 404)
    await compared(api, bob, his, hers, status=404)
    assert [item["run"] for item in (await get(api, bob, "/evaluations"))["items"]] == [his]
    assert len((await get(api, root, "/evaluations"))["items"]) == 2
    async with api.anonymous() as nobody:
        for path in (f"/jobs/{hers}/evaluation", "/evaluations", f"/evaluations/compare?run={hers}"):
            assert (await nobody.get(f"/api/v1{path}")).status_code == 401


@ON_SQLITE
@pytest.mark.parametrize(
    "path",
    [
        "/evaluations?cursor=AAAA",
        "/evaluations?limit=0",
        "/evaluations?project=../etc",
        "/evaluations/compare",
        "/evaluations/compare?confidence=1&run=a",
        "/evaluations/compare?confidence=nan&run=a",
        "/evaluations/compare?" + "&".join(f"run={number}" for number in range(11)),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(api: Api, ada: Principal, path: str) -> None:
    assert (await get(api, ada, path, 422))["code"] == "request-invalid"


@ON_SQLITE
async def test_one_run_alone_is_no_comparison(api: Api, ada: Principal) -> None:
    run = await evaluated(api.harness, ada)
    for runs in ([run], [run, run]):
        assert "2 to 10" in (await compared(api, ada, *runs, status=422))["detail"]


def put_checkpoint(path: Path, step: int) -> None:
    path.mkdir(parents=True)
    for name in ("adapter_model.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth"):
        (path / name).write_bytes(b"x" * 10)
    (path / "trainer_state.json").write_text(f'{{"global_step": {step}}}')
