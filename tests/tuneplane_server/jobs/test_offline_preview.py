"""What `tp submit --dry-run` works out without a console is what the console's own capsule gives, for every method and shape of the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tuneplane import adapters
from tuneplane.contract.jobspec import JobSpec
from tuneplane.contract.names import parse_owned_ref
from tuneplane.contract.refusals import RefusedError
from tuneplane.lab.config import load_config
from tuneplane.lab.find import Lab
from tuneplane.lab.jobspec import Origin, SubmitOptions, assemble
from tuneplane.lab.pools import Pools
from tuneplane.lab.preview import planned_machine, preview
from tuneplane.recipes import index
from tuneplane.recipes.lock import make_lock
from tuneplane.recipes.new import write_experiment
from tuneplane_server.features.jobs.capsule import CapsuleInput, build_capsule
from tuneplane_server.features.jobs.references import ResolvedReferences
from tuneplane_server.storage.layout import StorageRoot

RUN_ID = "0" * 16
DATASET = "ann/chats@2"
MODEL = "hf:Qwen/Qwen3-0.6B"


def pool(name: str, nodes: int, gpus: int) -> dict[str, Any]:
    return {"name": name, "series": "h200", "nodes": nodes, "gpus_per_node": gpus, "cpus": 8, "memory_gb": 64.0}


SHAPES: dict[str, Pools] = {
    "one card": Pools([pool("main", 1, 1)]),
    "one machine": Pools([pool("main", 1, 8)]),
    "two machines": Pools([pool("main", 2, 8)]),
    "two pools": Pools([pool("train", 2, 8), pool("rollout", 1, 8)], {"train": "train", "rollout": "rollout"}),
}


def shapes_of(method: str) -> list[str]:
    roles = set(index.entry(method)["manifest"]["roles"])
    return [name for name in SHAPES if name != "two pools" or roles >= {"train", "rollout"}]


@pytest.mark.parametrize("method", index.methods())
def test_both_sides_show_the_same_command_environment_and_files(method: str, tmp_path: Path) -> None:
    entry = index.entry(method)
    (tmp_path / "lab").mkdir()
    directory = write_experiment(tmp_path / "lab", "first", entry)
    config = load_config(directory, tmp_path / "lab")
    options = SubmitOptions(model=MODEL, train_data={"dataset": DATASET}, validation_data={"path": "/data/v.jsonl"}, env={"A": "b=c\n'\"$x"})  # fmt: skip
    refused: dict[str, bool] = {}
    for shape in shapes_of(method):
        pools = SHAPES[shape]
        spec = assemble(Lab(tmp_path / "lab", "demo"), "first", config, make_lock(entry), entry, {}, pools, options, Origin())  # fmt: skip
        capsule = consoles_capsule(spec, entry, tmp_path / "root")
        try:
            seen = preview(spec, entry)
        except RefusedError as error:  # a shape that the method cannot take: the other side says the same
            with pytest.raises(adapters.AdapterError) as caught:
                adapters.compile(capsule, planned_machine(capsule["topology"]["pools"], 0))
            refused[shape] = caught.value.detail in str(error)
            continue
        for rank, command in {0: seen.command, **seen.others}.items():
            theirs = adapters.compile(capsule, planned_machine(capsule["topology"]["pools"], rank))
            assert named(list(theirs.argv), tmp_path / "root") == command, (shape, rank)
            assert theirs.cwd_relative == seen.cwd
            if rank == 0:
                assert named(dict(theirs.files), tmp_path / "root") == seen.files, shape
                assert named(theirs.env, tmp_path / "root").items() <= seen.env.items()
        assert set(seen.others) == {"two machines": {1}, "two pools": {1, 2}}.get(shape, set())
        assert seen.env["A"] == "b=c\n'\"$x"
        assert not any(name.endswith("TOKEN") for name in seen.env)
    assert all(refused.values())
    assert len(refused) < len(shapes_of(method))


def consoles_capsule(spec: dict[str, Any], entry: dict[str, Any], root: Path) -> dict[str, Any]:
    storage = StorageRoot(root)
    named_data = parse_owned_ref(DATASET)
    assert named_data is not None
    assert named_data.version is not None
    given = CapsuleInput(
        job_id=RUN_ID,
        owner="ann",
        attempt=1,
        spec=JobSpec.model_validate(spec),
        manifest=entry["manifest"],
        references=ResolvedReferences(
            train=str(storage.dataset(named_data.owner, named_data.name, named_data.version)),
            validation="/data/v.jsonl",
            base=MODEL.partition(":")[2],
        ),
        ingest_address="http://console.test",
        resume_from=None,
    )
    return build_capsule(given, storage).to_json()


def named(value: Any, root: Path) -> Any:
    """The console's paths as the variables that hold them in the job."""
    attempt = root / "projects/ann/demo/jobs" / RUN_ID / "attempts/1"
    if isinstance(value, str):
        value = value.replace(f"{attempt}/out", "$TUNEPLANE_OUT_DIR")
        for path, variable in {"cache/data": "DATA_CACHE", "cache/hub": "HUB_CACHE"}.items():
            value = value.replace(str(root / path), f"$TUNEPLANE_{variable}")
        return value.replace(str(root), "$TUNEPLANE_STORAGE_ROOT").replace(RUN_ID, "$TUNEPLANE_RUN_ID")
    if isinstance(value, list):
        return [named(item, root) for item in value]
    if isinstance(value, dict):
        return {key: named(item, root) for key, item in value.items()}
    return value
