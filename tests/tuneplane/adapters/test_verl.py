"""verl: from a capsule to overrides, to Ray or torchrun. CPython 3.9 and the standard library.

That the overrides are verl's own keys is proved by Hydra and verl, in tests/catalog/verl.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.adapters.framework_capsules import ONE, OUT, ROLES, TWO, framework_capsule
from tuneplane import adapters
from tuneplane.adapters import AdapterError, LogHint, Machine

WORK = "/tmp/w"


def verl_capsule(method: str = "grpo", config: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    sft = method == "sft"
    fixed: dict[str, Any] = {} if sft else {"algorithm.adv_estimator": "grpo"}
    if method == "distillation":
        fixed["distillation.enabled"] = True
        config = {
            "distillation": {"teacher_models": {"teacher_model": {"model_path": "/models/teacher"}}},
            **(config or {}),
        }
    recipe = {
        "entrypoint": {"kind": "module", "value": "verl.trainer.sft_trainer" if sft else "verl.trainer.main_ppo"},
        "adapter_options": {"launcher": "torchrun" if sft else "ray", "fixed": fixed},
        "param_paths": {"learning_rate": "optim.lr" if sft else "actor_rollout_ref.actor.optim.lr"},
    }
    if not sft:
        recipe["entrypoint"]["experiment_override"] = "main.py"
    return framework_capsule("verl", recipe, config, more)


def compiled(capsule: dict[str, Any], count: int = 1, rank: int = 0, gpus: int = 8) -> adapters.Command:
    return adapters.compile(capsule, Machine(rank=rank, count=count, gpus_per_node=gpus, work_dir=WORK))


def values(command: adapters.Command) -> dict[str, str]:
    """Override -> its text. Each key is there once."""
    found = [item.lstrip("+").split("=", 1) for item in command.argv if item.startswith(("++", "hydra."))]
    assert len({key for key, _ in found}) == len(found)
    return dict(found)  # type: ignore[arg-type]


def test_reinforcement_learning_runs_main_ppo_or_the_experiments_own_main() -> None:
    command = compiled(verl_capsule(config={"data": {"seed": 1}}, train_data="/d/set", validation_data="/d/v.parquet"))
    at = command.argv.index("--")
    assert command.argv[:at] == (
        "python3", f"{WORK}/verl/verl_start.py",
        "files", "data.train_files", "/d/set", "",
        "files", "data.val_files", "/d/v.parquet", "",
        "own", "main.py",
    )  # fmt: skip
    assert command.argv[at + 1 : at + 5] == ("python3", "-m", "verl.trainer.main_ppo", "++data.seed=1")
    assert command.env["VERL_FILE_LOGGER_PATH"] == f"{OUT}/metrics.jsonl"
    assert command.log_hints == (LogHint("jsonl", "metrics.jsonl"),)
    assert "verl/verl_start.py" in command.files


def test_supervised_training_runs_under_torchrun() -> None:
    command = compiled(
        verl_capsule("sft", train_data="/d/t.jsonl", data={"train": {"split": "train"}}), count=2, rank=1
    )
    at = command.argv.index("--")
    assert command.argv[2:at] == ("parquet", "data.train_files", "/d/t.jsonl", "train")
    assert command.argv[at + 1 : at + 4] == ("python3", "-m", "torch.distributed.run")
    assert command.argv[command.argv.index("verl.trainer.sft_trainer") - 1] == "--module"
    found = values(command)
    assert (found["model.path"], found["data.val_files"], found["trainer.test_freq"]) == (
        "'/models/base'",
        "null",
        "-1",
    )


def test_the_platform_has_the_last_word_and_says_each_key_once() -> None:
    config = {"trainer": {"nnodes": 9, "logger": ["wandb"], "save_freq": 2}, "trainer.total_epochs": 3}
    found = values(compiled(verl_capsule(config=config, hyperparams={"learning_rate": 1e-05})))
    assert found["trainer.nnodes"] == "1"
    assert found["trainer.logger"] == "['console','file']"
    assert (found["trainer.save_freq"], found["trainer.total_epochs"]) == ("2", "3")
    assert found["actor_rollout_ref.actor.optim.lr"] == "1e-05"
    assert found["hydra.run.dir"] == f"'{OUT}/hydra'"
    assert found["trainer.default_local_dir"] == f"'{OUT}/checkpoints'"


def test_a_run_resumes_from_the_checkpoint_it_is_given_and_deletes_it_not() -> None:
    assert values(compiled(verl_capsule()))["trainer.resume_mode"] == "'disable'"
    found = values(compiled(verl_capsule(resume_from="/o/checkpoints/global_step_40/")))
    assert found["trainer.resume_mode"] == "'resume_path'"
    assert found["trainer.resume_from_path"] == "'/o/checkpoints/global_step_40'"
    assert found["trainer.del_local_ckpt_after_load"] == "false"


def test_without_data_the_sample_is_used_and_without_validation_data_nothing_is_validated() -> None:
    command = compiled(verl_capsule())
    assert command.argv[3:5] == ("data.train_files", "data/train.jsonl")
    assert "trainer.test_freq" not in values(command)
    command = compiled(verl_capsule(train_data="/d/t.parquet"))
    assert command.argv[7:9] == ("data.val_files", "/d/t.parquet")  # verl makes a set of it in any case
    assert values(command)["trainer.val_before_train"] == "false"


def test_two_pools_generate_on_cards_of_their_own() -> None:
    config = {"data": {"train_batch_size": 64}, "actor_rollout_ref": {"actor": {"ppo_mini_batch_size": 16}}}
    command = compiled(verl_capsule(config=config, pools=TWO, roles=ROLES), count=3)
    found = values(command)
    assert found["trainer.v1.trainer_mode"] == "'separate_async'"
    assert found["trainer.v1.separate_async.parameter_sync_step"] == "4"
    assert (found["trainer.nnodes"], found["actor_rollout_ref.rollout.nnodes"]) == ("2", "1")
    assert found["actor_rollout_ref.rollout.checkpoint_engine.backend"] == "'nccl'"
    assert command.argv[:2] == ("sh", f"{WORK}/ray.sh")
    config["data"]["train_batch_size"] = 65
    with pytest.raises(AdapterError, match="65 = 4 × 16"):
        compiled(verl_capsule(config=config, pools=TWO, roles=ROLES), count=3)


def test_the_asynchronous_mode_needs_two_pools() -> None:
    config = {"trainer": {"v1": {"trainer_mode": "separate_async"}}}
    with pytest.raises(AdapterError, match="needs two pools"):
        compiled(verl_capsule(config=config))


def test_the_teacher_has_half_of_the_cards_or_those_asked_for_or_a_pool() -> None:
    found = values(compiled(verl_capsule("distillation")))
    assert (found["distillation.n_gpus_per_node"], found["trainer.n_gpus_per_node"]) == ("4", "4")
    found = values(compiled(verl_capsule("distillation", {"distillation.n_gpus_per_node": 2})))
    assert (found["distillation.n_gpus_per_node"], found["trainer.n_gpus_per_node"]) == ("2", "6")
    found = values(
        compiled(verl_capsule("distillation", pools=TWO, roles={"train": "trainers", "teacher": "engines"}), count=3)
    )
    assert (found["distillation.nnodes"], found["distillation.n_gpus_per_node"]) == ("1", "8")
    assert (found["trainer.nnodes"], found["trainer.n_gpus_per_node"]) == ("2", "8")
    with pytest.raises(AdapterError, match="cards of their own"):
        compiled(verl_capsule("distillation", pools=[{**ONE[0], "gpus_per_node": 1}]), gpus=1)


@pytest.mark.parametrize("method", ["grpo", "sft"])
def test_what_cannot_run_is_said(method: str) -> None:
    with pytest.raises(AdapterError, match="tp submit --profile"):
        compiled(verl_capsule(method, pools=[{**ONE[0], "gpus_per_node": 0}]), gpus=0)
    with pytest.raises(AdapterError, match="tp submit --model"):
        compiled(verl_capsule(method, base_model=None))
    with pytest.raises(AdapterError, match="revision"):
        compiled(verl_capsule(method, base_model="me/model@main"))
    with pytest.raises(AdapterError, match="Hydra has no way"):
        compiled(verl_capsule(method, {"model": {"override_config": {"训练": 1}}}))


def test_folders_that_the_user_names_lie_in_the_out_dir() -> None:
    found = values(
        compiled(verl_capsule(config={"trainer": {"rollout_data_dir": "rollouts", "validation_data_dir": "/abs"}}))
    )
    assert found["trainer.rollout_data_dir"] == f"'{OUT}/rollouts'"
    assert found["trainer.validation_data_dir"] == "'/abs'"


def start(command: adapters.Command, work: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run what the runner would run, with a program that prints its arguments in the trainer's place."""
    for name, text in command.files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text, encoding="utf-8")
    show = work / "show.py"
    show.write_text("import json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    at = command.argv.index("--")
    argv = [*command.argv[:at], "--", sys.executable, "-m", "show", "++a='b c'"]
    environment = {**os.environ, "PYTHONPATH": str(work)}
    return subprocess.run(
        argv,
        cwd=str(cwd),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_start_names_the_files_of_a_folder(tmp_path: Path) -> None:
    work, data, experiment = tmp_path / "work", tmp_path / "it's data", tmp_path / "experiment"
    for folder in (work, data / "train", data / "test", experiment):
        folder.mkdir(parents=True)
    for name in ("train/b.parquet", "train/a.jsonl", "test/c.parquet", "README.md", ".hidden.jsonl"):
        (data / name).write_text("x")
    capsule = verl_capsule(
        train_data=str(data), data={"train": {"split": "train"}}, validation_data=str(data / "test/c.parquet")
    )
    command = adapters.compile(capsule, Machine(gpus_per_node=8, python=sys.executable, work_dir=str(work)))
    done = start(command, work, experiment)
    folder = str(data).replace("'", "\\'")
    assert json.loads(done.stdout) == [
        "++a='b c'",
        f"++data.train_files=['{folder}/train/a.jsonl','{folder}/train/b.parquet']",
        f"++data.val_files=['{folder}/test/c.parquet']",
    ]
    (experiment / "main.py").write_text("import sys\nprint('own', len(sys.argv))\n")
    assert start(command, work, experiment).stdout == "own 4\n"


def test_the_start_says_when_there_is_no_data(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    capsule = verl_capsule(train_data=str(tmp_path / "empty"))
    command = adapters.compile(capsule, Machine(gpus_per_node=8, python=sys.executable, work_dir=str(tmp_path)))
    done = start(command, tmp_path, tmp_path)
    assert done.returncode == 1
    assert (
        done.stderr
        == f"verl_start.py: verl finds no data: {tmp_path}/empty has no files ending in .parquet, .jsonl, .json\n"
    )
