"""What verl's configuration takes beyond its types, each with where it comes from; `record_verl.py` proves the `refused` ones.

verl's trees and dataclasses carry types and defaults, few bounds. `refused`: verl's own code refuses the value (proved by giving it such a
value); `registry`: the names that verl registers; `said`: the comment above the key in verl's YAML says so (quoted, and looked up);
`meaning`: the quantity has no other reading (a count of things is at least 1, a probability lies in 0 to 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

RL, SFT = "ppo_trainer", "sft_trainer_engine"
ACTOR, ROLLOUT, LOSS = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "distillation.distillation_loss"


@dataclass(frozen=True)
class Bound:
    """`limits`: min, max, exclusive_min, choices, type, nullable of `key` in the tree `tree`. `words` is the quote of `said`, in the file
    `quoted` below verl's trainer/config; `refuse` is called with `bad` and must raise."""

    tree: str
    key: str
    limits: dict[str, Any]
    source: str
    words: str = ""
    quoted: str = ""
    bad: Any = None
    refuse: Callable[[Any], Any] | None = None


def _meaning(tree: str, limits: dict[str, Any], *keys: str) -> list[Bound]:
    return [Bound(tree, key, limits, "meaning") for key in keys]


def _said(tree: str, key: str, quoted: str, words: str, **limits: Any) -> Bound:
    return Bound(tree, key, limits, "said", words=words, quoted=quoted)


def _kl_penalty(value: str) -> Any:
    import torch
    from verl.trainer.ppo.core_algos import kl_penalty

    return kl_penalty(torch.zeros(1, 1), torch.zeros(1, 1), value)


def _aggregate(value: str) -> Any:
    import torch
    from verl.trainer.ppo.core_algos import agg_loss

    return agg_loss(torch.ones(1, 1), torch.ones(1, 1), value)


def _kl_controller(value: str) -> Any:
    from types import SimpleNamespace

    from verl.trainer.ppo.core_algos import get_kl_controller

    return get_kl_controller(SimpleNamespace(type=value, kl_coef=0.1, horizon=10, target_kl=0.1))


def _schedule(value: str) -> Any:
    from verl.workers.config import FSDPOptimizerConfig

    return FSDPOptimizerConfig(lr=1e-6, lr_scheduler_type=value)


def _engine(value: str) -> Any:
    from verl.workers.config import FSDPEngineConfig

    return FSDPEngineConfig(strategy=value)


def _estimators() -> list[str]:
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

    return sorted(ADV_ESTIMATOR_REGISTRY)


def _policy_losses() -> list[str]:
    from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY

    return sorted(POLICY_LOSS_REGISTRY)


def _distillation_losses() -> list[str]:
    from verl.trainer.distillation.losses import DISTILLATION_LOSS_REGISTRY

    return sorted(DISTILLATION_LOSS_REGISTRY)


def _engines() -> list[str]:
    from verl.workers.rollout.base import _ROLLOUT_REGISTRY

    return sorted({name for name, _mode in _ROLLOUT_REGISTRY})


KL = [
    "kl",
    "k1",
    "abs",
    "mse",
    "k2",
    "low_var_kl",
    "k3",
    "full",
    "kl+",
    "k1+",
    "abs+",
    "mse+",
    "k2+",
    "low_var_kl+",
    "k3+",
]
AGGREGATIONS = ["token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm", "seq-mean-token-mean"]
SCHEDULES = ["constant", "cosine"]
REGISTRIES: dict[str, Callable[[], list[str]]] = {
    "algorithm.adv_estimator": _estimators,
    f"{ACTOR}.policy_loss.loss_mode": _policy_losses,
    f"{LOSS}.loss_mode": _distillation_losses,
    f"{ROLLOUT}.name": _engines,
}
REFUSED = [
    Bound(RL, "algorithm.kl_penalty", {"choices": KL}, "refused", bad="klx", refuse=_kl_penalty),
    Bound(RL, f"{ACTOR}.kl_loss_type", {"choices": KL}, "refused", bad="klx", refuse=_kl_penalty),
    Bound(RL, f"{ACTOR}.loss_agg_mode", {"choices": AGGREGATIONS}, "refused", bad="mean", refuse=_aggregate),
    Bound(RL, "critic.loss_agg_mode", {"choices": AGGREGATIONS}, "refused", bad="mean", refuse=_aggregate),
    Bound(RL, "algorithm.kl_ctrl.type", {"choices": ["fixed", "adaptive"]}, "refused", bad="x", refuse=_kl_controller),
    *(
        Bound(tree, f"{at}.lr_scheduler_type", {"choices": SCHEDULES}, "refused", bad="linear", refuse=_schedule)
        for tree, at in ((RL, f"{ACTOR}.optim"), (RL, "critic.optim"), (SFT, "optim"))
    ),
    *(
        Bound(tree, f"{at}.strategy", {"choices": ["fsdp", "fsdp2"]}, "refused", bad="ddp", refuse=_engine)
        for tree, at in ((RL, f"{ACTOR}.fsdp_config"), (RL, "actor_rollout_ref.ref.fsdp_config"), (SFT, "engine"))
    ),
]
SAID = [
    _said(RL, "trainer.v1.trainer_mode", "ppo_trainer.yaml", '"sync", "colocate_async", "separate_async"',
          choices=["sync", "colocate_async", "separate_async"]),
    _said(RL, "trainer.v1.sampler.max_off_policy_strategy", "ppo_trainer.yaml", "drop: drop the trajectory",
          choices=["drop", "wait"]),
    _said(RL, "data.truncation", "data/legacy_data.yaml", "Options: 'error', 'left', 'right', 'middle'",
          choices=["error", "left", "right", "middle"]),
    _said(SFT, "trainer.resume_mode", "sft_trainer_engine.yaml", 'Resume mode: "auto", "disable", or "resume_path"',
          choices=["auto", "disable", "resume_path"]),
    _said(RL, "trainer.resume_mode", "ppo_trainer.yaml", 'Resume mode: "auto", "disable", or "resume_path"',
          choices=["auto", "disable", "resume_path"]),
]  # fmt: skip
# `trainer/sft_trainer.py` compares save_freq and test_freq with this text; the tree has only their numbers.
EPOCH = {"type": ["int", "str"], "choices": ["after_each_epoch"], "min": -1}
# Sizes of things: at least one.
COUNTS = [
    *_meaning(RL, {"min": 1}, "data.train_batch_size", "data.gen_batch_size", "data.max_prompt_length",
              "data.max_response_length", "trainer.total_epochs", "trainer.total_training_steps", f"{ROLLOUT}.n",
              f"{ROLLOUT}.val_kwargs.n", f"{ROLLOUT}.tensor_model_parallel_size", f"{ROLLOUT}.max_num_seqs",
              f"{ROLLOUT}.max_num_batched_tokens", f"{ROLLOUT}.max_model_len", f"{ROLLOUT}.agent.num_workers",
              f"{ACTOR}.ppo_mini_batch_size", f"{ACTOR}.ppo_micro_batch_size_per_gpu", f"{ACTOR}.ppo_epochs",
              f"{ACTOR}.ppo_max_token_len_per_gpu", f"{ACTOR}.ulysses_sequence_parallel_size",
              f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu", "critic.ppo_epochs", "critic.ppo_mini_batch_size",
              "critic.ppo_micro_batch_size_per_gpu", "trainer.max_actor_ckpt_to_keep", "trainer.max_critic_ckpt_to_keep",
              "trainer.v1.separate_async.parameter_sync_step", f"{LOSS}.topk", "distillation.n_gpus_per_node"),
    *_meaning(SFT, {"min": 1}, "data.train_batch_size", "data.micro_batch_size_per_gpu", "data.max_token_len_per_gpu",
              "data.max_length", "trainer.total_epochs", "trainer.total_training_steps", "trainer.max_ckpt_to_keep"),
]  # fmt: skip
QUANTITIES = [
    *_meaning(RL, {"min": 0}, f"{ACTOR}.optim.lr", f"{ACTOR}.optim.weight_decay", "critic.optim.lr", "critic.optim.weight_decay",
              f"{ACTOR}.clip_ratio", f"{ACTOR}.clip_ratio_low", f"{ACTOR}.clip_ratio_high", f"{ACTOR}.kl_loss_coef",
              "algorithm.kl_ctrl.kl_coef", f"{ACTOR}.clip_ratio_c", "critic.cliprange_value", f"{ACTOR}.grad_clip", "trainer.critic_warmup",
              "actor_rollout_ref.model.lora_rank", f"{ROLLOUT}.temperature", f"{ROLLOUT}.val_kwargs.temperature",
              f"{LOSS}.distillation_loss_coef", "data.dataloader_num_workers"),
    *_meaning(RL, {"min": 0, "max": 1}, "algorithm.gamma", "algorithm.lam", f"{ACTOR}.optim.lr_warmup_steps_ratio"),
    *_meaning(RL, {"exclusive_min": 0, "max": 1}, f"{ROLLOUT}.top_p", f"{ROLLOUT}.gpu_memory_utilization", f"{ROLLOUT}.val_kwargs.top_p"),
    *_meaning(RL, {"min": -1}, "trainer.save_freq", "trainer.test_freq", f"{ROLLOUT}.top_k", "data.train_max_samples"),
    *_meaning(SFT, {"min": 0}, "optim.lr", "optim.weight_decay", "optim.clip_grad", "model.lora_rank", "data.num_workers"),
    *_meaning(SFT, {"min": 0, "max": 1}, "optim.lr_warmup_steps_ratio"),
    *(Bound(SFT, key, EPOCH, "meaning") for key in ("trainer.save_freq", "trainer.test_freq")),
]  # fmt: skip
# Keys whose default is empty and that no dataclass describes.
TYPES = [
    *(Bound(tree, key, {"type": ["int"]}, "meaning") for tree, key in (
        (RL, "trainer.total_training_steps"), (RL, "trainer.max_actor_ckpt_to_keep"), (RL, "trainer.max_critic_ckpt_to_keep"),
        (RL, "actor_rollout_ref.ref.log_prob_micro_batch_size"), (RL, "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu"),
        (RL, "ray_kwargs.ray_init.num_cpus"), (RL, "data.gen_batch_size"), (RL, "data.val_batch_size"), (RL, "data.seed"), (SFT, "trainer.total_training_steps"),
        (SFT, "trainer.max_ckpt_to_keep"))),
    *(Bound(tree, key, {"type": ["str"]}, "meaning") for tree, key in (
        (RL, "data.tokenizer"), (RL, "data.tool_config_path"), (RL, "data.function_tool_path"),
        (RL, "algorithm.rollout_correction.rollout_is"), (RL, "algorithm.rollout_correction.rollout_rs"),
        (RL, "trainer.v1.sampler.custom_sampler.path"), (RL, "trainer.v1.sampler.custom_sampler.name"),
        (RL, "data.custom_cls.path"), (RL, "data.custom_cls.name"), (RL, "trainer.rollout_data_dir"), (RL, "trainer.validation_data_dir"),
        (RL, "trainer.resume_from_path"), (RL, "trainer.default_hdfs_dir"), (SFT, "data.custom_cls.path"),
        (SFT, "data.custom_cls.name"), (SFT, "trainer.resume_from_path"), (SFT, "trainer.default_hdfs_dir"),
        (RL, "reward.custom_reward_function.path"), (RL, "trainer.checkpoint_callback_class"))),
    *(Bound(tree, key, {"type": ["str", "list[str]"]}, "meaning") for tree, key in (
        (RL, "data.train_files"), (RL, "data.val_files"), (SFT, "data.train_files"), (SFT, "data.val_files"))),
    # `experimental/reward_loop/reward_manager/dapo.py` reads it; the tree has no such key.
    # More teachers than the one of the tree may be named below it (`workers/config/distillation.py`, DistillationConfig).
    Bound(RL, "distillation.teacher_models", {"type": ["dict"], "default": {}}, "read"),
    Bound(RL, "reward.reward_kwargs", {"type": ["dict"], "default": {}}, "read"),
    Bound(RL, "reward.reward_kwargs.max_resp_len", {"type": ["int"], "min": 1}, "read"),
    Bound(RL, "reward.reward_kwargs.overlong_buffer_cfg.enable", {"type": ["bool"], "default": False}, "read"),
    Bound(RL, "reward.reward_kwargs.overlong_buffer_cfg.len", {"type": ["int"], "min": 1}, "read"),
    Bound(RL, "reward.reward_kwargs.overlong_buffer_cfg.penalty_factor", {"type": ["float"], "min": 0}, "read"),
    Bound(RL, "reward.reward_kwargs.overlong_buffer_cfg.log", {"type": ["bool"], "default": False}, "read"),
]  # fmt: skip
BOUNDS = [*REFUSED, *SAID, *COUNTS, *QUANTITIES, *TYPES]
