"""OpenRLHF: from a capsule to flags, to Ray or torchrun, to what lies in place before. CPython 3.9 and the standard library.

That the flags are OpenRLHF's own is proved by its parsers, in tests/catalog/openrlhf.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.tuneplane.adapters.framework_capsules import ONE, OUT, ROLES, TWO, openrlhf_capsule
from tuneplane import adapters
from tuneplane.adapters import AdapterError, LogHint, Machine
from tuneplane.adapters.openrlhf import argv_of, user_flags

WORK = "/tmp/w"


def compiled(capsule: dict[str, Any], count: int = 1, rank: int = 0, gpus: int = 8) -> adapters.Command:
    return adapters.compile(capsule, Machine(rank=rank, count=count, gpus_per_node=gpus, work_dir=WORK))


def flag(command: adapters.Command, name: str) -> str | None:
    """The value of a flag, "" for a switch that is on."""
    for item in command.argv:
        if item == f"--{name}":
            return ""
        if item.startswith(f"--{name}="):
            return item[len(name) + 3 :]
    return None


def test_supervised_training_runs_as_a_module_under_torchrun() -> None:
    command = compiled(openrlhf_capsule(config={"adam.lr": 1.0e-06}))
    at = command.argv.index("openrlhf.cli.train_sft")
    assert command.argv[1:3] == ("-m", "torch.distributed.run")
    assert command.argv[at - 1] == "--module"
    assert command.argv[at + 1] == "--adam.lr=1e-06"
    assert command.cwd_relative == "lab/experiments/first"
    assert LogHint("tensorboard", "tensorboard") in command.log_hints
    assert flag(command, "logger.tensorboard_dir") == f"{OUT}/tensorboard"


def test_reinforcement_learning_is_a_driver_on_ray() -> None:
    command = compiled(openrlhf_capsule("grpo"))
    assert command.argv[:3] == ("python3", "-m", "openrlhf.cli.train_ppo_ray")
    assert command.env["RAY_ADDRESS"] == "local"
    assert flag(command, "algo.advantage.estimator") == "group_norm"
    assert flag(command, "actor.model_name_or_path") == "/models/base"


def test_one_pool_is_shared_and_two_pools_work_at_the_same_time() -> None:
    one, two = compiled(openrlhf_capsule("grpo")), compiled(openrlhf_capsule("grpo", pools=TWO, roles=ROLES), count=3)
    assert (flag(one, "vllm.num_engines"), flag(one, "vllm.enable_sleep"), flag(one, "train.async_enable")) == (
        "8",
        "",
        None,
    )
    assert (flag(two, "vllm.num_engines"), flag(two, "vllm.enable_sleep"), flag(two, "train.async_enable")) == (
        "8",
        None,
        "",
    )
    assert (flag(two, "actor.num_nodes"), flag(two, "critic.num_nodes"), flag(two, "actor.num_gpus_per_node")) == (
        "2",
        "2",
        "8",
    )


def test_a_reward_function_and_the_sample_are_found_by_engines_on_any_machine() -> None:
    one, two = compiled(openrlhf_capsule("grpo")), compiled(openrlhf_capsule("grpo", pools=TWO, roles=ROLES), count=3)
    assert flag(one, "reward.remote_url") == f"{WORK}/lab/experiments/first/reward.py"
    assert flag(two, "reward.remote_url") == f"{OUT}/experiment/reward.py"
    assert flag(two, "data.prompt_dataset") == f"{OUT}/experiment/data/train.jsonl"
    assert f"{WORK}/prepare.sh" in two.argv
    assert "prepare.sh" in two.files


@pytest.mark.parametrize("url", ["http://scores:5000/get", "/srv/reward.py", "a,b"])
def test_a_reward_that_is_no_file_of_the_experiment_stays_as_it_is(url: str) -> None:
    assert flag(compiled(openrlhf_capsule("grpo", {"reward.remote_url": url})), "reward.remote_url") == url


def test_data_of_the_job_comes_before_the_sample_and_without_validation_data_there_is_none() -> None:
    command = compiled(openrlhf_capsule(train_data="/data/t.jsonl"))
    assert (flag(command, "data.dataset"), flag(command, "eval.dataset")) == ("/data/t.jsonl", None)
    split = {"train": {"split": "half"}}
    assert flag(compiled(openrlhf_capsule(train_data="/data/t", data=split)), "data.dataset_split") == "half"


def test_a_run_goes_on_from_a_checkpoint_that_is_put_into_its_own_folder() -> None:
    source = "/srv/jobs/0/attempts/1/out/checkpoints/global_step8"
    command = compiled(openrlhf_capsule(resume_from=source))
    steps = list(command.argv[2 : command.argv.index("--")])
    assert steps == [
        "copy", source, f"{OUT}/checkpoints/global_step8", "write", "global_step8", f"{OUT}/checkpoints/latest",
    ]  # fmt: skip
    assert flag(command, "ckpt.load_enable") == ""


def test_actor_and_critic_are_resumed_together_where_there_is_a_critic() -> None:
    source = "/srv/1/out/checkpoints/_actor/global_step8"
    ppo = openrlhf_capsule("ppo", resume_from=source)
    ppo["recipe"]["adapter_options"]["fixed"] = {"algo.advantage.estimator": "gae"}
    both, alone = compiled(ppo), compiled(openrlhf_capsule("grpo", resume_from=source))
    assert "/srv/1/out/checkpoints/_critic/global_step8" in both.argv
    assert f"{OUT}/checkpoints/_critic/latest" in both.argv
    assert not any("_critic" in item for item in alone.argv)


def test_flags_are_taken_flat_or_nested_and_set_values_and_fixed_ones_win() -> None:
    capsule = openrlhf_capsule(
        "grpo", {"actor": {"adam": {"lr": 1.0}}, "train.seed": 1, "model": {}, "algo.advantage.estimator": "rloo"},
        hyperparams={"learning_rate": 2.0},
    )  # fmt: skip
    flags = user_flags(capsule)
    assert (flags["actor.adam.lr"], flags["train.seed"], flags["algo.advantage.estimator"]) == (2.0, 1, "group_norm")
    assert "model" not in flags


@pytest.mark.parametrize(
    ("flags", "argv"),
    [
        ({"a": True, "b": False, "c": None}, ["--a"]),
        ({"muon.nesterov": True}, ["--muon.nesterov"]),
        ({"actor.muon.nesterov": False, "muon.nesterov": False}, ["--actor.muon.no_nesterov", "--muon.no_nesterov"]),
        ({"a": "", "b": "-x=y z", "c": 1.0e-05}, ["--a=", "--b=-x=y z", "--c=1e-05"]),
        ({"a": [-1.0e-05, 2], "b": []}, ["--a", "-0.00001", "2", "--b"]),
    ],
)
def test_values_are_written_as_argparse_reads_them(flags: dict[str, Any], argv: list[str]) -> None:
    assert argv_of(flags) == argv


@pytest.mark.parametrize(
    ("method", "config", "more", "words"),
    [
        ("sft", {}, {"base_model": None}, "tp submit --model"),
        ("sft", {}, {"base_model": "org/name@main"}, "loads no revision"),
        ("sft", {}, {"train_data": "/data/a,b"}, "a comma or an @"),
        ("sft", {"adam.lr": 1, "adam": {"lr": 2}}, {}, "adam.lr is in config.yaml twice"),
        ("sft", {"ds.lora.target_modules": ["-x"]}, {}, "begins with a dash"),
        ("sft", {}, {"hyperparams": {"beta": 1}}, "no parameter 'beta'"),
        ("sft", {}, {"pools": [{**ONE[0], "gpus_per_node": 0}]}, "trains on GPUs"),
        ("grpo", {"vllm.tensor_parallel_size": 3}, {}, "does not divide the 8 GPUs"),
        ("grpo", {"reward.remote_url": None}, {}, "nothing gives rewards"),
        ("grpo", {"train.partial_rollout_enable": True}, {}, "needs two pools"),
        ("grpo", {"rollout.batch_size": 2, "rollout.n_samples_per_prompt": 2}, {}, "one batch for each GPU"),
        ("sft", {"ckpt.save_steps": 0}, {}, "ckpt.save_steps 0 is no period"),
        ("grpo", {"eval": {"steps": 0}}, {}, "eval.steps 0 is no period"),
    ],
)
def test_what_openrlhf_would_fail_on_is_said_before_it_starts(method: str, config: Any, more: Any, words: str) -> None:
    with pytest.raises(AdapterError, match=words):
        compiled(openrlhf_capsule(method, config, **more))
