"""Each rule of admission by what it refuses, and that all refusals come back together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import INGEST, Harness, gpu_pool, jobspec, package
from tuneplane.contract.jobspec import JobSpec
from tuneplane.contract.refusals import RefusedError
from tuneplane_server.domain.classify import Exit
from tuneplane_server.executors.port import Capabilities
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.admission import needs
from tuneplane_server.features.jobs.admission.context import AdmissionContext
from tuneplane_server.features.jobs.admission.ingest_url import is_loopback
from tuneplane_server.features.jobs.query import JobQuery
from tuneplane_server.features.runtimes.registry import RuntimeRegistry


@pytest.fixture
async def harness(migrated_sqlite_url: str, tmp_path: Path) -> Any:
    """On SQLite: the rules are functions of plain values."""
    harness = Harness(migrated_sqlite_url, tmp_path, ScriptedExecutor())
    yield harness
    await harness.close()


async def refusals(harness: Harness, who: Principal, spec: Any) -> list[tuple[str, str]]:
    """(code, field) of every refusal of a submission; nothing may have been written."""
    try:
        await harness.services.jobs.submit(who, spec, key=None, ingest_address=INGEST)
    except RefusedError as error:
        found = error.refusals
    else:
        return []
    rows, _next = await harness.services.jobs.list(who, JobQuery())
    assert rows == []
    assert all(refusal.message for refusal in found)
    return [(refusal.code, refusal.field) for refusal in found]


def changed(path: str, value: Any, spec: dict[str, Any] | None = None) -> dict[str, Any]:
    """A good JobSpec with one value changed; `path` as in `spec.recipe.name`."""
    made: dict[str, Any] = json.loads(json.dumps(spec or jobspec()))
    *parents, last = path.split(".")
    place: Any = made
    for name in parents:
        place = place[int(name)] if isinstance(place, list) else place.setdefault(name, {})
    place[last] = value
    return made


async def test_a_good_jobspec_is_admitted(harness: Harness, ada: Principal) -> None:
    assert await refusals(harness, ada, jobspec()) == []


@pytest.mark.parametrize(
    ("path", "value", "code", "field"),
    [
        # form
        ("spec.recipe.nmae", "x", "spec-unknown-field", "spec.recipe.nmae"),
        ("surprise", 1, "spec-unknown-field", "surprise"),
        ("metadata.name", "../up", "spec-invalid", "metadata.name"),
        ("metadata.project", "a" * 64, "spec-invalid", "metadata.project"),
        ("metadata.display_name", "a\0b", "spec-invalid", "metadata.display_name"),
        ("spec.resources.pools.0.nodes", "two", "spec-invalid", "spec.resources.pools.0.nodes"),
        ("spec.framework.observability_url", "ftp://x", "spec-invalid", "spec.framework.observability_url"),
        ("spec.env", {"TUNEPLANE_RUN_ID": "x"}, "env-reserved", "spec.env"),
        ("spec.env", {"HF_HOME": "x"}, "env-reserved", "spec.env"),
        ("spec.env", {"1BAD": "x"}, "spec-invalid", "spec.env"),
        ("spec.config", {"x": float("nan")}, "number-not-finite", "spec.config.x"),
        ("apiVersion", "tuneplane/v9", "spec-invalid", "apiVersion"),
        # recipe
        ("spec.recipe.name", "custom/custon", "method-unknown", "spec.recipe.name"),
        ("spec.recipe.digest", "0" * 64, "catalog-mismatch", "spec.recipe.digest"),
        ("spec.recipe.version", "0.9", "catalog-mismatch", "spec.recipe.digest"),
        # framework
        ("spec.framework.kind", "verl", "spec-invalid", "spec.framework.kind"),
        ("spec.framework.version", "0.1", "runtime-removed", "spec.framework.version"),
        ("spec.framework.runtime_id", "other-1", "lock-stale", "spec.framework.runtime_id"),
        ("spec.framework.observability_url", None, "observability-url", "spec.framework.observability_url"),
        # parameters
        ("spec.hyperparams", {"learning_rate": 0.1}, "param-unknown", "spec.hyperparams.learning_rate"),
        ("spec.config", {"big": 2**60}, "spec-invalid", ""),
        # profiles and pools
        ("spec.resources.pools.0.series", "h900", "profile-unknown", "spec.resources.pools.0.series"),
        ("spec.resources", {"pools": [{"series": "H200", "nodes": 1, "gpus_per_node": 1}]}, "profile-unknown", "spec.resources.pools.0.series"),
        ("spec.resources", gpu_pool(9), "pool-impossible", "spec.resources.pools.0.gpus_per_node"),
        ("spec.resources.pools.0.gpus_per_node", 1, "profile-invalid", "spec.resources.pools.0.gpus_per_node"),
        ("spec.resources.pools.0.cpus", 4096, "", ""),
        ("spec.resources.pools.0.memory_gb", 65536, "", ""),
        ("spec.resources", {"pools": [{"series": "h200", "nodes": 2, "gpus_per_node": 8}]}, "pool-impossible", "spec.resources.pools"),
        ("spec.resources.roles", {"rollout": "main"}, "roles-invalid", "spec.resources.roles.rollout"),
        # runtime
        ("spec.framework.image", "registry.example.org/x:1", "runtime-form", "spec.framework"),
        ("spec.framework.image", "/nowhere/env", "runtime-unresolved", "spec.framework"),
        ("spec.framework.image", "untagged", "spec-invalid", "spec.framework.image"),
        # what is named and not there
        ("spec.data", {"train": {"path": "/nowhere/train.jsonl"}}, "data-missing", "spec.data.train.path"),
        ("spec.data", {"train": {"dataset": "ada/chats@1"}}, "data-missing", "spec.data.train.dataset"),
        ("spec.data", {"volumes": ["ada/cache"]}, "data-missing", "spec.data.volumes.0"),
        ("spec.model", {"base": "/nowhere/model"}, "model-missing", "spec.model.base"),
        ("spec.model", {"base": "tp:ada/model"}, "model-missing", "spec.model.base"),
        ("spec.model", {"init_from": f"run/{'0' * 16}/checkpoint"}, "model-missing", "spec.model.init_from"),
        ("spec.secrets", ["HF_TOKEN"], "secret-missing", "spec.secrets"),
        ("spec.data", {"environment": "swe"}, "sandbox-missing", "spec.data.environment"),
        ("spec.evaluation", {"suites": ["gsm8k"]}, "spec-invalid", "spec.evaluation"),
        ("spec.lifecycle", {"on_success": [{"export": {}}]}, "export-impossible", "spec.lifecycle.on_success.0"),
        ("provenance.package_digest", "0" * 64, "package-missing", "provenance.package_digest"),
    ],
)  # fmt: skip
async def test_a_rule_refuses_what_it_is_for_and_nothing_else(
    harness: Harness, ada: Principal, path: str, value: Any, code: str, field: str
) -> None:
    assert await refusals(harness, ada, changed(path, value)) == ([(code, field)] if code else [])


async def test_all_refusals_come_back_together(harness: Harness, ada: Principal) -> None:
    spec = changed("spec.resources.pools.0.series", "h900")
    spec = changed("spec.framework.observability_url", None, spec)
    spec = changed("spec.secrets", ["A", "B"], spec)
    spec = changed("provenance.package_digest", "0" * 64, spec)
    codes = [code for code, _field in await refusals(harness, ada, spec)]
    assert codes == ["observability-url", "profile-unknown", "secret-missing", "secret-missing", "package-missing"]


@pytest.mark.parametrize("raw", [None, [], 7, "x", {}, {"spec": 1}, {"spec": {"env": [1]}}, {"a": {"b": [{}]}}])
async def test_what_is_no_jobspec_is_refused(harness: Harness, ada: Principal, raw: Any) -> None:
    assert {code for code, _field in await refusals(harness, ada, raw)} <= {"spec-invalid", "spec-unknown-field"}
    assert await refusals(harness, ada, raw)


async def test_nesting_without_end_is_refused(harness: Harness, ada: Principal) -> None:
    deep: Any = 1
    for _level in range(200):
        deep = {"x": deep}
    assert await refusals(harness, ada, changed("spec.config", {"x": deep})) == [("spec-invalid", "")]


async def test_the_framework_s_own_parameters_are_checked_here_too(harness: Harness, ada: Principal) -> None:
    config = {"learning_rate": "fast", "max_stepz": 3, "output_dir": "/tmp/x"}
    spec = jobspec("trl/sft", config=config)
    found = {field: code for code, field in await refusals(harness, ada, spec)}
    assert found["spec.config.learning_rate"] == "param-type"
    assert found["spec.config.max_stepz"] == "param-unknown"
    assert found["spec.config.output_dir"] == "key-platform-owned"


async def test_several_pools_need_an_executor_that_can(harness: Harness, ada: Principal) -> None:
    pools = [
        {"name": "a", "series": "h200", "nodes": 1, "gpus_per_node": 1},
        {"name": "b", "series": "h200", "nodes": 1, "gpus_per_node": 1},
    ]
    spec = changed("spec.resources", {"pools": pools, "roles": {"train": "a", "rollout": "b"}})
    assert [code for code, _field in await refusals(harness, ada, spec)] == ["pool-heterogeneous", "roles-invalid"]


# --- where jobs report to ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("http://127.0.0.1:1", True),
        ("http://127.9.9.9", True),
        ("http://localhost:8642", True),
        ("http://[::1]:1", True),
        ("http://0.0.0.0", True),
        ("https://console.example.org", False),
        ("http://10.0.0.1:8642", False),
        ("http://[2001:db8::1]:1", False),
    ],
)
def test_loopback_is_known_in_every_spelling(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback


async def test_jobs_elsewhere_cannot_report_to_loopback(harness: Harness, ada: Principal) -> None:
    away = Capabilities("scripted", "environment", on_this_machine=False, isolates=False)
    harness.scripted.capabilities = lambda: away  # type: ignore[method-assign]
    assert await refusals(harness, ada, jobspec()) == [("ingest-url", "")]
    row = await harness.services.jobs.submit(ada, jobspec(), key=None, ingest_address="https://console.example.org")
    assert row.phase == "queued"


# --- whose package, whose files ---------------------------------------------------------------------------------------


async def test_a_package_of_another_user_cannot_be_used_by_its_digest(harness: Harness, ada: Principal) -> None:
    bob = await harness.user("bob")
    assert await refusals(harness, bob, jobspec()) == [("package-missing", "provenance.package_digest")]
    await harness.bring_package(bob)
    assert await refusals(harness, bob, jobspec()) == []


@pytest.fixture
def in_containers(harness: Harness, tmp_path: Path) -> Path:
    """The executor isolates, and the administrator mounts one folder in every container; returns that folder."""
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    isolating = Capabilities("scripted", "environment", on_this_machine=True, isolates=True)
    harness.scripted.capabilities = lambda: isolating  # type: ignore[method-assign]
    settings = harness.services.settings.with_values(container_mounts=f"{open_folder}:{open_folder}:ro")
    planner = harness.services.planner
    object.__setattr__(planner, "settings", settings)
    return open_folder


async def test_containers_see_no_path_of_the_host_but_the_open_ones(
    harness: Harness, ada: Principal, in_containers: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (in_containers / "data").mkdir()
    (in_containers / "out").symlink_to(secret)

    async def codes(path: Path) -> list[str]:
        spec = changed("spec.data", {"train": {"path": str(path)}})
        return [code for code, _field in await refusals(harness, ada, spec)]

    assert await codes(secret) == ["data-missing"]
    assert await codes(in_containers / "out") == ["data-missing"]  # a link does not lead out
    assert await codes(Path("/etc")) == ["data-missing"]
    assert await codes(in_containers / "data") == []


async def test_runs_of_others_are_not_there(harness: Harness, ada: Principal, in_containers: Path) -> None:
    bob = await harness.user("bob")
    job_id = await harness.running_job(ada)
    job = await harness.job(job_id)
    checkpoint = harness.out(job) / "checkpoints" / "checkpoint-5"
    checkpoint.mkdir(parents=True)
    (checkpoint / "COMPLETE").touch()
    await harness.write_outcome(job_id)
    harness.scripted.containers[job_id, 1].exit = Exit(False, 0)
    await harness.round()
    by_name = changed("spec.model", {"init_from": f"run/{job_id}/checkpoint@step=5"})
    by_path = changed("spec.model", {"init_from": str(checkpoint)})
    await harness.bring_package(bob)
    for spec in (by_name, by_path):
        with pytest.raises(RefusedError) as caught:
            await harness.services.jobs.submit(bob, spec, key=None, ingest_address=INGEST)
        assert [refusal.code for refusal in caught.value.refusals] == ["model-missing"]
        mine = await harness.submit(ada, spec)
        await harness.round()
        plan = harness.scripted.containers[mine, 1].plan
        assert checkpoint in plan.read_only
        capsule = json.loads((plan.capsule / "capsule.json").read_text())
        assert capsule["paths"]["init_model"] == str(checkpoint)


# --- the runtime ------------------------------------------------------------------------------------------------------


@pytest.fixture
def make_environment(tmp_path: Path) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        path = tmp_path / "environments" / name
        (path / "bin").mkdir(parents=True)
        (path / "bin" / "python3").touch()
        return path

    return make


async def _image(harness: Harness, ada: Principal, **changes: Any) -> Any:
    settings = harness.services.settings.with_values(**changes)
    object.__setattr__(harness.services.planner, "settings", settings)
    registry = RuntimeRegistry(settings.runtime_registry_file, harness.services.findings)
    object.__setattr__(harness.services.planner, "registry", registry)
    try:
        row = await harness.services.jobs.submit(ada, jobspec("trl/sft"), key=None, ingest_address=INGEST)
    except RefusedError as error:
        return [refusal.code for refusal in error.refusals]
    return row.runtime["image"], row.runtime["source"]


async def test_the_runtime_comes_from_the_setting_the_registry_or_the_catalog_in_that_order(
    harness: Harness, ada: Principal, make_environment: Callable[[str], Path], tmp_path: Path
) -> None:
    assert await _image(harness, ada) == ["runtime-unresolved"]
    built = make_environment("trl-1.16")
    runtimes = built.parent
    assert await _image(harness, ada, runtimes_dir=runtimes) == (str(built), "catalog")
    registered, configured = make_environment("registered"), make_environment("configured")
    registry = tmp_path / "registry.yaml"
    registry.write_text(f"runtimes:\n  trl-1.16: {{environment: {registered}, sif: /x.sif}}\n")
    with_registry = {"runtimes_dir": runtimes, "runtime_registry_file": registry}
    assert await _image(harness, ada, **with_registry) == (str(registered), "registry")
    assert await _image(harness, ada, **with_registry, images={"TRL": str(configured)}) == (str(configured), "setting")
    registry.write_text("runtimes:\n  trl-1.16: {sif: /x.sif}\n")
    assert await _image(harness, ada, **with_registry, images={}) == ["runtime-form"]
    registry.write_text("[broken")
    assert await _image(harness, ada, **with_registry) == ["runtime-registry"]


async def test_an_unfinished_environment_is_none(
    harness: Harness, ada: Principal, make_environment: Callable[[str], Path]
) -> None:
    path = make_environment("trl-1.16")
    (path.parent / ".trl-1.16.lock").touch()  # our own builder is or was at work here
    assert await _image(harness, ada, runtimes_dir=path.parent) == ["runtime-unresolved"]
    (path / ".ready").touch()
    assert await _image(harness, ada, runtimes_dir=path.parent) == (str(path), "catalog")


async def test_containers_need_an_image_that_somebody_named(harness: Harness, ada: Principal) -> None:
    containers = Capabilities("docker", "oci", on_this_machine=True, isolates=True)
    harness.scripted.capabilities = lambda: containers  # type: ignore[method-assign]
    assert await _image(harness, ada) == ["runtime-unresolved"]
    assert await _image(harness, ada, images={"TRL": "registry.example.org/trl:1"}) == (
        "registry.example.org/trl:1",
        "setting",
    )
    assert await _image(harness, ada, images={"TRL": "/env"}) == ["runtime-form"]


def test_the_package_of_the_tests_is_reproducible() -> None:
    assert hashlib.sha256(package()).hexdigest() == jobspec()["provenance"]["package_digest"]


def test_a_recipe_that_needs_a_model_is_asked_for_it() -> None:
    manifest = {"name": "verl/grpo", "adapter_options": {"needs": ["model", "train_data"]}}
    for spec, codes in (
        (jobspec(), ["model-missing", "data-missing"]),
        (changed("spec.model", {"base": "hf:owner/name"}), ["data-missing"]),
        (changed("spec.model", {"base": "hf:owner/name"}, changed("spec.data.train", {"path": "/data"})), []),
    ):
        context = SimpleNamespace(entry={"manifest": manifest}, manifest=manifest, spec=JobSpec.model_validate(spec))
        assert [item.code for item in needs.check(cast("AdmissionContext", context))] == codes
