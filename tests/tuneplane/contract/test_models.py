"""The typed shapes: unknown keys refused with their path, finite numbers only, schemas current."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from tuneplane.contract import schemas
from tuneplane.contract.digests import canonical_json, digest_json, digest_tree
from tuneplane.contract.ingest import Record
from tuneplane.contract.jobspec import JobSpec
from tuneplane.contract.refusals import Refusal, RefusedError

ZERO = "0" * 64
SPEC: dict[str, Any] = {
    "apiVersion": "tuneplane/v1",
    "kind": "TrainingJob",
    "metadata": {"name": "first", "project": "demo"},
    "spec": {
        "recipe": {"name": "trl/sft", "version": "1.0.0", "digest": ZERO},
        "framework": {"kind": "trl", "version": "1.16"},
        "resources": {"pools": [{"series": "cpu", "nodes": 1, "gpus_per_node": 0, "cpus": 2, "memory_gb": 4}]},
        "config": {"learning_rate": 1e-4},
    },
    "provenance": {"client_version": "0.1.0", "config_digest": ZERO, "package_digest": ZERO},
}


def altered(path: str, value: object) -> dict[str, Any]:
    spec = copy.deepcopy(SPEC)
    target: Any = spec
    *parents, last = path.split(".")
    for part in parents:
        target = target[int(part)] if part.isdigit() else target.setdefault(part, {})
    target[last] = value
    return spec


def test_a_spec_survives_the_wire() -> None:
    spec = JobSpec.model_validate(SPEC)
    assert JobSpec.model_validate(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("surprise", 1),
        ("spec.surprise", 1),
        ("spec.resources.pools.0.surprise", 1),
        ("metadata.name", "../x"),
        ("metadata.name", "实验"),
        ("metadata.name", "x" * 300),
        ("spec.config.learning_rate", float("nan")),
        ("spec.config.nested", {"a": [float("inf")]}),
        ("spec.hyperparams.x", float("-inf")),
        ("spec.framework.image", "name-without-tag"),
        ("spec.framework.image", "--privileged:1"),
        ("spec.framework.observability_url", "javascript:alert(1)"),
        ("spec.model.base", "relative/path"),
        ("spec.model.base", "/data/../etc"),
        ("spec.data.train", {"dataset": "a/b"}),
        ("spec.data.train", {"dataset": "a/b@v1", "path": "/x"}),
        ("spec.data.volumes", ["a/b@v1"]),
        ("spec.resources.pools.0.nodes", 0),
        ("spec.resources.pools.0.nodes", 65537),
        ("spec.resources.pools.0.memory_gb", None),
        ("spec.resources.roles", {"train": "nowhere"}),
        ("spec.env", {"TUNEPLANE_RUN_ID": "x"}),
        ("spec.env", {"A B": "x"}),
        ("spec.env", {"A": "x\0y"}),
        ("provenance.git_commit", "abc"),
    ],
)
def test_what_does_not_belong_is_refused(path: str, value: object) -> None:
    with pytest.raises(ValidationError):
        JobSpec.model_validate(altered(path, value))


@pytest.mark.parametrize(
    "image", ["r.example/team/trl:1.16", "trl@sha256:" + "a" * 64, "/runtimes/trl.sif", "host:5000/x:1"]
)
def test_images_with_tag_digest_or_path_are_taken(image: str) -> None:
    assert JobSpec.model_validate(altered("spec.framework.image", image)).spec.framework.image == image


def test_several_pools_need_every_pool_to_have_a_role() -> None:
    pools = [{"name": n, "series": "h200", "nodes": 1, "gpus_per_node": 8} for n in ("train", "rollout")]
    spec = altered("spec.resources", {"pools": pools, "roles": {"actor": "train"}})
    with pytest.raises(ValidationError, match="rollout"):
        JobSpec.model_validate(spec)
    spec["spec"]["resources"]["roles"]["rollout"] = "rollout"
    JobSpec.model_validate(spec)


def test_environment_values_arrive_as_they_are() -> None:
    value = "a=b 'c' \"d\" $HOME\n终\t"
    assert JobSpec.model_validate(altered("spec.env", {"X": value, "EMPTY": ""})).spec.env == {"X": value, "EMPTY": ""}


def test_numbers_that_json_lacks_travel_as_words() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(Record)
    record = {
        "attempt": 1,
        "rank": 0,
        "seq": 1,
        "stream": "metric",
        "series": {"a": {"step": [1], "time": [0.5], "value": ["NaN"]}},
    }
    assert adapter.validate_python(record).series["a"].value == ["NaN"]
    with pytest.raises(ValidationError):
        adapter.validate_python({**record, "series": {"a": {"step": [1], "time": [0.5], "value": ["nan"]}}})


def test_digests_are_canonical() -> None:
    assert canonical_json({"b": 1.0, "a": "é"}) == '{"a":"é","b":1}'.encode()
    assert digest_json({"a": 1, "b": 2}) == digest_json({"b": 2, "a": 1})
    assert digest_tree({"x": b"1", "y": b"2"}) != digest_tree({"x": b"2", "y": b"1"})
    with pytest.raises(ValueError, match=r".*"):
        canonical_json({"a": float("nan")})


def test_a_refusal_needs_a_known_code_and_an_error_a_refusal() -> None:
    with pytest.raises(ValueError, match="made-up"):
        Refusal("made-up", "x")
    with pytest.raises(ValueError, match="at least one"):
        RefusedError([])
    refusal = Refusal("param-type", "m", file="config.yaml", line=3)
    assert refusal.where() == "config.yaml:3"
    assert refusal.to_json() == {"code": "param-type", "message": "m", "file": "config.yaml", "line": 3}


def test_the_published_schemas_are_current() -> None:
    directory = Path(__file__).parents[3] / "docs/reference/schemas"
    assert schemas.main([str(directory), "--check"]) == 0
