"""In which form checkpoints keep their weights, by the names of their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneplane.runner.export_layouts import export_layout

LAYOUTS = [
    ("hf", "", False, ["config.json", "model.safetensors", "optimizer.pt"]),
    ("hf", "", False, ["config.json", "model.safetensors.index.json", "model-1.safetensors"]),
    ("hf", "", False, ["config.json", "model.safetensors", "iter_0000002/a.distcp", "latest_checkpointed_iteration.txt"]),
    ("hf-adapter", "", True, ["adapter_config.json", "adapter_model.safetensors", "config.json"]),
    ("hf-adapter", "", True, ["adapter_config.json", "adapter_model.bin"]),
    ("deepspeed", "", False, ["mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt"]),
    ("verl-fsdp", "actor", False, ["actor/fsdp_config.json", "actor/model_world_size_1_rank_0.pt", "data.pt"]),
    ("verl-fsdp", "actor", True, ["actor/fsdp_config.json", "actor/lora_train_meta.json"]),
    ("verl-fsdp", "", False, ["fsdp_config.json", "model_world_size_1_rank_0.pt"]),
    ("nemo-rl-dcp", "policy/weights", False, ["config.yaml", "policy/weights/.metadata", "policy/weights/a.distcp"]),
    ("nemo-rl-dcp", "policy/weights", False, ["config.yaml", "policy/weights/model/.metadata"]),
    ("hf", "policy/weights/model/consolidated", False,
     ["policy/weights/model/consolidated/config.json", "policy/weights/model/consolidated/model.safetensors"]),
    ("hf-adapter", "policy/weights/model", True,
     ["policy/weights/model/adapter_config.json", "policy/weights/model/adapter_model.safetensors"]),
]  # fmt: skip
PROBLEMS = [
    (["policy/weights/model/shard-1.safetensors"], "its weights are shards in safetensors"),
    (["actor/model/dist_ckpt/a"], "its weights are in shards of Megatron"),
    (["global_step4/x", "trainer_state.json"], "its weights are in shards of the trainer"),
    (["weights.bin"], "it holds no weights in a layout that is known"),
    (["config.json"], "it holds no weights in a layout that is known"),
    (["adapter_config.json"], "it holds no weights in a layout that is known"),
]


def fill(folder: Path, names: list[str]) -> str:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"12345")
    return str(folder)


@pytest.mark.parametrize(("layout", "weights", "adapter", "names"), LAYOUTS)
def test_a_layout_is_known_by_its_files(
    tmp_path: Path, layout: str, weights: str, adapter: bool, names: list[str]
) -> None:
    found = export_layout(fill(tmp_path, names))
    assert found[:3] == (layout, weights, adapter)
    assert found.problem == ""
    assert found.size > 0


@pytest.mark.parametrize(("names", "problem"), PROBLEMS)
def test_what_cannot_be_exported_says_why(tmp_path: Path, names: list[str], problem: str) -> None:
    found = export_layout(fill(tmp_path, names))
    assert found.layout is None
    assert found.problem.startswith(problem)


def test_optimizer_states_do_not_count_and_a_missing_directory_is_no_crash(tmp_path: Path) -> None:
    assert export_layout(fill(tmp_path, ["config.json", "model.safetensors", "optimizer.pt"])).size == 10
    assert export_layout(str(tmp_path / "gone")).problem == "it cannot be read: No such file or directory"
