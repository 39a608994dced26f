"""Exports over HTTP: the run that turns a checkpoint into a Hugging Face directory, what it runs, what is refused, and what names it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.tuneplane_server.harness import Api, Harness, jobspec
from tests.tuneplane_server.jobs.test_steering import end, jobs_there_are
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.submission import Submissions


@pytest.fixture(autouse=True)
def runtime(harness: Harness) -> None:
    place_runtime(harness)


def place_runtime(harness: Harness) -> None:
    """The Python environment of TRL as a console of process mode looks for it."""
    place = harness.services.settings.runtimes / "trl-1.16" / "bin"
    place.mkdir(parents=True)
    (place / "python3").touch()


def sft(method: str = "trl/sft", **spec: Any) -> dict[str, Any]:
    return jobspec(method, **spec)


async def save(harness: Harness, job_id: str, step: int, *, adapter: bool = False, complete: bool = True) -> Path:
    """A checkpoint in Hugging Face's layout; its path."""
    path = harness.out(await harness.job(job_id)) / "checkpoints" / f"checkpoint-{step}"
    path.mkdir(parents=True)
    weights = "adapter_model.safetensors" if adapter else "model.safetensors"
    for name in ("adapter_config.json" if adapter else "config.json", weights):
        (path / name).write_bytes(b"x")
    if complete:
        (path / "COMPLETE").touch()
    return path


async def trained(harness: Harness, owner: Principal, *steps: int, spec: Any = None, **how: bool) -> str:
    """A run that is over and left checkpoints."""
    job_id = await harness.running_job(owner, spec or sft())
    for step in steps:
        await save(harness, job_id, step, **how)
    await end(harness, job_id)
    return job_id


async def export(
    client: httpx2.AsyncClient, job_id: str, body: Any = None, key: str | None = None, query: str = ""
) -> httpx2.Response:
    headers = {"Idempotency-Key": key} if key else {}
    return await client.post(f"/api/v1/jobs/{job_id}/export{query}", json=body, headers=headers)


async def test_an_export_is_a_run_of_the_same_recipe_and_runtime(api: Api, ada: Principal) -> None:
    harness = api.harness
    first = await trained(harness, ada, 4, 8)
    async with await api.client(ada) as client:
        answer = await export(client, first, {"dtype": "bfloat16"})
        assert answer.status_code == 201, answer.text
        job = answer.json()
        followers = (await client.get(f"/api/v1/jobs/{first}")).json()["followers"]
        events = (await client.get(f"/api/v1/jobs/{job['id']}/events")).json()["items"]
    before = (await harness.job(first)).spec["spec"]
    assert job["origin"] == {"id": first, "kind": "export"}
    assert followers == [{"id": job["id"], "kind": "export", "phase": "queued"}]
    assert events[0]["text"] == f"submitted by ada, to export a checkpoint of run {first}"
    assert (job["recipe"]["name"], job["spec"]["spec"]["framework"]) == ("trl/sft", before["framework"])
    assert job["spec"]["spec"]["action"] == {
        "kind": "export",
        "source": f"run/{first}/checkpoint@step=8,attempt=1",
        "name": "step-8",
        "merge_lora": False,
        "dtype": "bfloat16",
    }
    (pool,) = job["pools"]
    assert (pool["series"], pool["gpus_per_node"], pool["nodes"]) == ("cpu", 0, 1)
    assert job["resume_point"] is None


async def test_its_capsule_has_the_action_and_the_checkpoint_is_mounted(api: Api, ada: Principal) -> None:
    harness = api.harness
    first = await trained(harness, ada, 4, adapter=True)
    async with await api.client(ada) as client:
        made = (await export(client, first, {"merge_lora": True})).json()["id"]
    await harness.round()
    job = await harness.job(made)
    capsule = json.loads((harness.out(job).parent / "capsule" / "capsule.json").read_text())
    source = harness.out(await harness.job(first)) / "checkpoints" / "checkpoint-4"
    assert capsule["action"] == {
        "kind": "export", "source": str(source), "weights": "", "layout": "hf-adapter", "adapter": True, "run": first, "step": 4,
        "name": "step-4-merged", "merge_lora": True,
    }  # fmt: skip
    assert harness.out(await harness.job(first)) in harness.scripted.containers[made, 1].plan.read_only


async def test_a_dry_run_shows_the_command_and_changes_nothing(api: Api, ada: Principal) -> None:
    first = await trained(api.harness, ada, 4)
    count = await jobs_there_are(api.harness)
    async with await api.client(ada) as client:
        answer = (
            await export(client, first, {"name": "mine", "cpus": 1, "memory_gb": 1}, query="?dry_run=true")
        ).json()
    assert (answer["admitted"], answer["refusals"]) == (True, [])
    argv = answer["plan"]["argv_preview"]
    assert argv[1] == "$TUNEPLANE_WORK_DIR/export/export_start.py"
    assert argv[argv.index("--source") + 1].endswith(f"/jobs/{first}/attempts/1/out/checkpoints/checkpoint-4")
    assert argv[argv.index("--target") + 1].endswith("/out/exports/mine")
    assert "export/export_start.py" in answer["plan"]["files"]
    assert (answer["jobspec"]["spec"]["resources"]["pools"][0]["cpus"], await jobs_there_are(api.harness)) == (1, count)


async def test_the_same_key_is_the_same_export_even_when_there_is_a_newer_checkpoint(api: Api, ada: Principal) -> None:
    harness = api.harness
    first = await trained(harness, ada, 4)
    async with await api.client(ada) as client:
        made = (await export(client, first, key="k")).json()["id"]
        await save(harness, first, 8)
        await harness.services.artifacts.register(first, 1)
        assert (await export(client, first, key="k")).json()["id"] == made
        other = await export(client, first, {"merge_lora": True}, key="k")
        assert (other.status_code, other.json()["code"]) == (409, "idempotency-conflict")
        newer = (await export(client, first, key="other")).json()
    assert newer["spec"]["spec"]["action"]["name"] == "step-8"


@pytest.mark.parametrize(("name", "before"), [("submit", True), ("_insert", False), ("submit", False)])
async def test_a_console_killed_at_any_step_makes_one_export(
    api: Api, ada: Principal, monkeypatch: pytest.MonkeyPatch, name: str, before: bool
) -> None:
    class KilledError(BaseException):
        """As SIGKILL: nothing catches it."""

    harness = api.harness
    first = await trained(harness, ada, 4)
    real = getattr(Submissions, name)

    async def dying(*given: Any, **named: Any) -> Any:
        if not before:
            await real(*given, **named)
        raise KilledError

    from tuneplane_server.features.jobs.exporting import ExportWanted
    from tuneplane_server.features.jobs.steering import Asked

    asked = Asked(ada, "k", "http://127.0.0.1:1")
    count = await jobs_there_are(harness)
    with monkeypatch.context() as patch:
        patch.setattr(Submissions, name, dying)
        with pytest.raises(KilledError):
            await harness.services.exports.export(asked, first, ExportWanted())
    await harness.restart()
    row = await harness.services.exports.export(asked, first, ExportWanted())
    assert (row.origin_id, await jobs_there_are(harness)) == (first, count + 1)


async def test_an_export_names_itself_and_the_run_it_comes_from_as_a_base_model(api: Api, ada: Principal) -> None:
    harness = api.harness
    first = await trained(harness, ada, 4)
    async with await api.client(ada) as client:
        made = (await export(client, first)).json()["id"]
        await harness.round()
        out = harness.out(await harness.job(made))
        (out / "exports/.step-4.part").mkdir(parents=True)
        early = await client.post("/api/v1/jobs", json=sft(model={"base": f"run/{made}/export"}))
        assert early.json()["refusals"][0]["message"] == f"the run {made} has no export that is complete"
        (out / "exports/.step-4.part").rename(out / "exports/step-4")
        (out / "exports/step-4/tuneplane-export.json").write_text('{"run": "x", "step": 4}')
        await harness.write_outcome(made)
        from tuneplane_server.domain.classify import Exit

        harness.scripted.containers[made, 1].exit = Exit(False, 0)
        await harness.round(3)
        assert (await harness.job(made)).phase == "succeeded"
        for name in (f"run/{made}/export", f"run/{first}/export", f"run/{first}/export@step=4"):
            answer = await client.post("/api/v1/jobs?dry_run=true", json=sft(model={"base": name}))
            assert answer.json()["refusals"] == [], name
        wrong = await client.post("/api/v1/jobs", json=sft(model={"base": f"run/{first}/export@step=5"}))
        assert wrong.json()["refusals"][0]["code"] == "model-missing"
        listing = (await client.get(f"/api/v1/jobs/{made}/artifacts")).json()
    assert [(item["name"], item["files"]) for item in listing["exports"]] == [("step-4", 1)]


async def test_what_the_run_ended_with_is_exported_when_it_saved_no_checkpoint(api: Api, ada: Principal) -> None:
    harness = api.harness
    job_id = await harness.running_job(ada, sft())
    model = harness.out(await harness.job(job_id)) / "model"
    model.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        (model / name).write_bytes(b"x")
    await end(harness, job_id)
    async with await api.client(ada) as client:
        job = (await export(client, job_id)).json()
    action = job["spec"]["spec"]["action"]
    assert (action["source"], action["name"]) == (f"run/{job_id}/model@attempt=1", "model")


@pytest.mark.parametrize(
    ("steps", "how", "body", "code", "text"),
    [
        ((), {}, {}, "checkpoint-missing", "run {id} has no complete checkpoint to export"),
        ((4,), {"complete": False}, {}, "checkpoint-missing", "(step 4: trainer_state.json is missing: it was cut off while being"),
        ((4,), {"complete": False}, {"step": 4}, "checkpoint-incomplete", "step 4 of run {id} is not complete: trainer_state.json"),
        ((4,), {}, {"step": 5}, "checkpoint-missing", "run {id} has no checkpoint of step 5"),
        ((4,), {}, {"merge_lora": True}, "export-impossible", "holds no LoRA adapter, so there is nothing to merge"),
        ((4,), {}, {"profile": "h100"}, "profile-unknown", "h100"),
        ((4,), {}, {"dtype": "int4"}, "request-invalid", "dtype"),
        ((4,), {}, {"name": "../x"}, "request-invalid", "name"),
        ((4,), {}, {"step": -1}, "request-invalid", "step"),
        ((4,), {}, {"steps": 4}, "request-invalid", "steps"),
    ],
)  # fmt: skip
async def test_what_cannot_be_exported_is_refused_and_named(
    api: Api, ada: Principal, steps: tuple[int, ...], how: dict[str, bool], body: dict[str, Any], code: str, text: str
) -> None:
    job_id = await trained(api.harness, ada, *steps, **how)
    count = await jobs_there_are(api.harness)
    async with await api.client(ada) as client:
        answer = await export(client, job_id, body)
    assert answer.status_code == 422, answer.text
    said = answer.json()
    told = [{"code": said["code"], "message": said["detail"]}, *said.get("refusals", [])]
    assert code in {item["code"] for item in told}
    assert any(text.format(id=job_id) in json.dumps(item) for item in [*told, said]), said
    assert await jobs_there_are(api.harness) == count


async def test_recipes_and_layouts_without_an_export_are_refused(api: Api, ada: Principal) -> None:
    harness = api.harness
    own = await harness.running_job(ada)
    path = harness.out(await harness.job(own)) / "checkpoints" / "checkpoint-4"
    path.mkdir(parents=True)
    (path / "COMPLETE").touch()
    await end(harness, own)
    other = await trained(harness, ada)
    sharded = harness.out(await harness.job(other)) / "checkpoints" / "checkpoint-2"
    (sharded / "global_step2").mkdir(parents=True)
    (sharded / "COMPLETE").touch()
    await harness.services.artifacts.register(other, 1)
    async with await api.client(ada) as client:
        answer = await export(client, own)
        assert (answer.status_code, answer.json()["detail"]) == (422, "the recipe custom/custom cannot export")
        answer = await export(client, other)
        assert "its weights are in shards of the trainer" in answer.text
        assert answer.json()["refusals"][0]["code"] == "export-impossible"


async def test_nobody_exports_what_they_may_not_read(api: Api, ada: Principal) -> None:
    first = await trained(api.harness, ada, 4)
    eve = await api.harness.user("eve")
    async with await api.client(eve) as client:
        assert (await export(client, first)).status_code == 404
        action = {"kind": "export", "source": f"run/{first}/checkpoint@step=4", "name": "x"}
        answer = await client.post("/api/v1/jobs?dry_run=true", json=sft(action=action))
    assert f"there is no run {first}" in answer.text
    assert answer.json()["plan"]["argv_preview"] is None
