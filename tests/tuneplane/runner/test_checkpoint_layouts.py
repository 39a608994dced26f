"""Checkpoints of NeMo RL, DeepSpeed (OpenRLHF), verl and Megatron: which of them a run can resume from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneplane.runner.checkpoints import problem_of, step_of

DEEPSPEED = {"mp_rank_00_model_states.pt": "m", "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt": "o"}
NEMO_RL = {"training_info.json": "{}", "config.yaml": "x", "policy/weights/model/shard-00001.safetensors": "w"}


def write(path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "step"),
    [("step_8", 8), ("global_step12", 12), ("global_step_30", 30), ("checkpoint-4", 4), ("model2x", 0)],
)
def test_the_step_is_read_from_every_frameworks_name(name: str, step: int) -> None:
    assert step_of(f"/out/checkpoints/{name}") == step


def test_nemo_rls_renamed_folder_is_whole(tmp_path: Path) -> None:
    assert problem_of(str(write(tmp_path / "step_4", NEMO_RL))) is None
    empty = write(tmp_path / "step_8", {"training_info.json": "{}"})
    (empty / "policy/weights").mkdir(parents=True)
    assert problem_of(str(empty)) == "it holds no model weights"


@pytest.mark.parametrize(
    ("latest", "problem"),
    [
        ("global_step8", None),
        ("global_step12\n", None),
        ("global_step4", "latest does not name it yet"),
        ("", "latest does not name it yet"),
        (None, "there is no latest beside it"),
    ],
)
def test_deepspeeds_folder_is_whole_when_its_pointer_says_so(
    tmp_path: Path, latest: str | None, problem: str | None
) -> None:
    checkpoint = write(tmp_path / "global_step8", DEEPSPEED)
    if latest is not None:
        (tmp_path / "latest").write_text(latest)
    found = problem_of(str(checkpoint))
    assert found is None if problem is None else problem in str(found)


def test_a_deepspeed_checkpoint_without_its_optimizer_or_with_an_empty_part_is_no_start(tmp_path: Path) -> None:
    (tmp_path / "latest").write_text("global_step8")
    only_model = write(tmp_path / "global_step8", {"mp_rank_00_model_states.pt": "m"})
    assert problem_of(str(only_model)) == "it holds no optimizer state"
    assert problem_of(str(only_model), expect_optimizer=False) is None
    write(only_model, {"zero_pp_rank_1_mp_rank_00_optim_states.pt": ""})
    assert problem_of(str(only_model)) == "zero_pp_rank_1_mp_rank_00_optim_states.pt is empty"


def test_a_policy_whose_critic_is_not_whole_is_no_start(tmp_path: Path) -> None:
    actor = write(tmp_path / "_actor" / "global_step8", DEEPSPEED)
    (tmp_path / "_actor" / "latest").write_text("global_step8")
    assert problem_of(str(actor)) is None  # a method without a critic
    write(tmp_path / "_critic", {"latest": "global_step4", "global_step4/mp_rank_00_model_states.pt": "m"})
    assert "its critic cannot be read" in str(problem_of(str(actor)))
    critic = write(tmp_path / "_critic" / "global_step8", {"bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt": "o"})
    assert problem_of(str(actor)) == "its critic holds no model weights"
    write(critic, DEEPSPEED)
    assert (
        problem_of(str(actor)) == "its critic: latest does not name it yet: it is still being written, or was cut off"
    )
    (tmp_path / "_critic" / "latest").write_text("global_step8")
    assert problem_of(str(actor)) is None


@pytest.mark.parametrize(("latest", "whole"), [("8", True), ("9", True), ("7", False)])
def test_verls_folder_is_whole_when_its_pointer_says_so(tmp_path: Path, latest: str, whole: bool) -> None:
    checkpoint = write(tmp_path / "global_step_8", {"actor/model_world_size_1_rank_0.pt": "m", "data.pt": "d"})
    (tmp_path / "latest_checkpointed_iteration.txt").write_text(latest)
    assert (problem_of(str(checkpoint)) is None) == whole


@pytest.mark.parametrize("left", [{"data.pt": "d"}, {"data.pt": "d", "critic/model_world_size_1_rank_0.pt": "m"}])
def test_what_verl_leaves_of_an_old_checkpoint_is_no_start(tmp_path: Path, left: dict[str, str]) -> None:
    checkpoint = write(tmp_path / "global_step_2", left)
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("6")
    assert problem_of(str(checkpoint)) == "its weights were removed, as max_actor_ckpt_to_keep asks"


SWIFT = {
    "latest_checkpointed_iteration.txt": "8",
    "args.json": "{}",
    "model.safetensors": "w",
    "iter_0000008/common.pt": "c",
    "iter_0000008/__0_0.distcp": "s",
    "iter_0000008/metadata.json": "{}",
}


@pytest.mark.parametrize(
    ("missing", "problem"),
    [
        ((), None),
        (("latest_checkpointed_iteration.txt",), "cut off while being written"),
        (("iter_0000008/metadata.json",), "still being written"),
        (("iter_0000008/__0_0.distcp",), "no state to resume from"),
        (tuple(name for name in SWIFT if name.startswith("iter_")), "cannot be read"),
    ],
)
def test_ms_swifts_megatron_checkpoints_hold_their_own_pointer(
    tmp_path: Path, missing: tuple[str, ...], problem: str | None
) -> None:
    folder = write(tmp_path / "checkpoint-8", {name: text for name, text in SWIFT.items() if name not in missing})
    found = problem_of(str(folder))
    assert found is None if problem is None else problem in str(found)
