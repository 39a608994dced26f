"""The configuration keys of NeMo RL 0.7.0 with the defaults of its example files, noted down from its repository.

NeMo RL has no package that could be installed and asked: its image holds the repository. Read were `examples/configs/{grpo_math_1B, ppo_math_1B, sft,
dpo, rm, distillation_math}.yaml` and the `TypedDict`s of `nemo_rl/algorithms/{grpo,ppo,distillation}.py`, `nemo_rl/data/__init__.py`,
`nemo_rl/utils/{checkpoint,logger}.py` for keys that the examples leave out; ORIGIN says of what, and through what. `record_nemo_rl.py` makes the
schema of this, and compares it with a checkout of NeMo RL where there is one.
"""

from __future__ import annotations

from typing import Any

from nemo_rl_parts import (
    CLUSTER,
    LINEAR_CE,
    MEGATRON_MTP,
    Key,
    checkpointing,
    data,
    free,
    logger,
    maybe,
    number,
    optimizer,
    policy,
    ref,
    under,
    without,
)

ORIGIN = {
    "repository": "https://github.com/NVIDIA-NeMo/RL",
    "version": "0.7.0",
    "tag": "v0.7.0",
    "read_through": "xuanduy04/ordures_v070@5cf8f079dd935c5a4caf017b20c1018d5fd3edf1, a copy whose nemo_rl/package_info.py says 0.7.0",
}

REWARD_SHAPING = {
    "enabled": False,
    "overlong_buffer_length": 128,
    "overlong_buffer_penalty": number(1),
    "max_response_length": ref("int", "policy.max_total_sequence_length"),
    "stop_properly_penalty_coef": maybe("float"),
}
REWARD_SCALING = {"enabled": False, "source_min": 0.0, "source_max": 1.0, "target_min": 0.0, "target_max": 1.0}
CLIPPED_LOSS = {
    "reference_policy_kl_penalty": Key(("float",), 0.01, {"min": 0}),
    "reference_policy_kl_type": Key(("str",), "k3", {"choices": ["k1", "k2", "k3"]}),
    "kl_input_clamp_value": Key(("float",), 20.0, {"nullable": True}),
    "kl_output_clamp_value": Key(("float",), 10.0, {"nullable": True}),
    "ratio_clip_min": Key(("float",), 0.2, {"min": 0}),
    "ratio_clip_max": Key(("float",), 0.2, {"min": 0}),
    "ratio_clip_c": Key(("float",), None, {"exclusive_min": 1}),
    "use_on_policy_kl_approximation": False,
    "use_importance_sampling_correction": False,
    "truncated_importance_sampling_type": Key(("str",), None, {"choices": ["tis", "icepop", "seq-mask-tis"]}),
    "truncated_importance_sampling_ratio": maybe("float"),
    "truncated_importance_sampling_ratio_min": maybe("float"),
    "sequence_level_importance_ratios": False,
    "token_level_loss": True,
    "force_on_policy_ratio": False,
    "use_kl_in_reward": False,
    "use_cispo": False,
    "disable_ppo_ratio": False,
    "positive_example_nll_weight": Key(("float",), 0.0, {"min": 0}),
}


def rollouts(prompts: int, generations: int, epochs: int, steps: int, period: int, samples: int) -> dict[str, Any]:
    return {
        "num_prompts_per_step": Key(("int",), prompts, {"min": 1}),
        "num_generations_per_prompt": Key(("int",), generations, {"min": 1}),
        "max_rollout_turns": Key(("int",), 1, {"min": 1}),
        "max_num_epochs": Key(("int",), epochs, {"min": 1}),
        "max_num_steps": Key(("int",), steps, {"min": 1}),
        "val_period": Key(("int",), period, {"min": 0}),
        "val_at_start": False,
        "val_at_end": False,
        "max_val_samples": Key(("int",), samples, {"nullable": True, "min": 1}),
        "val_batch_size": Key(("int",), 256, {"nullable": True, "min": 1}),
        "seed": Key(("int",), 42, {"min": 0}),
    }


def offline(steps: int, period: int, batches: int, batch: int, at_start: bool) -> dict[str, Any]:
    return {
        "max_num_epochs": Key(("int",), 1, {"min": 1}),
        "max_num_steps": Key(("int",), steps, {"min": -1}),
        "val_period": Key(("int",), period, {"min": 0}),
        "val_batches": Key(("int",), batches, {"min": -1}),
        "val_global_batch_size": Key(("int",), batch, {"min": 1}),
        "val_micro_batch_size": Key(("int",), 1, {"min": 1}),
        "val_at_start": at_start,
        "val_at_end": False,
        "seed": Key(("int",), 42, {"min": 0}),
    }


SAMPLING = {
    "overlong_filtering": False,
    "use_dynamic_sampling": False,
    "dynamic_sampling_max_gen_batches": Key(("int",), 10, {"min": 1}),
    "batch_multiplier": Key(("float",), 1, {"exclusive_min": 0}),
    "skip_reference_policy_logprobs_calculation": False,
    **under("reward_shaping", REWARD_SHAPING),
    **under("reward_scaling", REWARD_SCALING),
}
ENV = {"env": free({"math": {"num_workers": 8, "math_verify_impl": "hf_math_verify"}})}

GRPO = {
    **under(
        "grpo",
        {
            **rollouts(32, 16, 1, 1000000, 10, 256),
            **SAMPLING,
            "normalize_rewards": True,
            "use_leave_one_out_baseline": True,
            "advantage_clip_low": maybe("float"),
            "advantage_clip_high": maybe("float"),
            "calculate_advantages_on_gpu": False,
            "seq_logprob_error_threshold": maybe("float"),
            "invalid_tool_call_advantage": maybe("float"),
            "malformed_thinking_advantage": maybe("float"),
            "adv_estimator.name": Key(("str",), "grpo", {"choices": ["grpo", "gdpo", "reinforce_plus_plus", "opd"]}),
            "adv_estimator.normalize_rewards": ref("bool", "grpo.normalize_rewards"),
            "adv_estimator.use_leave_one_out_baseline": ref("bool", "grpo.use_leave_one_out_baseline"),
            "adv_estimator.minus_baseline": True,
            "async_grpo.enabled": False,
            "async_grpo.max_trajectory_age_steps": Key(("int",), 1, {"min": 1}),
            "async_grpo.in_flight_weight_updates": False,
            "async_grpo.recompute_kv_cache_after_weight_updates": False,
        },
    ),
    **under("loss_fn", CLIPPED_LOSS),
    **checkpointing("val:accuracy", True, 10),
    **policy("policy", "Qwen/Qwen2.5-1.5B", (512, 4), 512, optimizer(5.0e-6, 0.01, [0.9, 0.999], 1.0e-8, False), True),
    **under("policy.megatron_cfg", MEGATRON_MTP),
    **under(
        "policy.draft",
        {
            "enabled": False,
            "model_name": maybe("str"),
            "loss_weight": Key(("float",), 0.1, {"min": 0}),
            "num_layers": maybe("int"),
            "aux_layer_indices": maybe("list[int]"),
        },
    ),
    "policy.sequence_packing.enabled": True,
    **data(
        False, use_multiple_dataloader=False, num_prompts_per_dataloader=maybe("int"), custom_dataloader=maybe("str")
    ),
    **ENV,
    **logger(),
    **CLUSTER,
    "data_plane": free(),
    "on_policy_distillation": Key(("dict",), None),
}
PPO = {
    **under(
        "ppo",
        {
            **rollouts(32, 16, 100000, 100000, 20, 256),
            **SAMPLING,
            "val_at_start": True,
            "skip_reference_policy_logprobs_calculation": True,
            "ppo_epochs": Key(("int",), 4, {"min": 1}),
            "policy_training_start_step": Key(("int",), 0, {"min": 0}),
            "adv_estimator.name": Key(("str",), "gae", {"choices": ["gae", "raw_reward"]}),
            "adv_estimator.gae_lambda": Key(("float",), 0.95, {"min": 0, "max": 1}),
            "adv_estimator.gae_gamma": Key(("float",), 1, {"min": 0, "max": 1}),
            "adv_estimator.normalize_advantages": True,
            "adv_estimator.gae_lambda_value": Key(("float",), None, {"min": 0, "max": 1}),
            "adv_estimator.gae_lambda_policy": Key(("float",), None, {"min": 0, "max": 1}),
            "adv_estimator.length_adaptive_alpha": Key(("float",), 0.0, {"min": 0}),
            "reward_shaping.enabled": True,
            "reward_shaping.overlong_buffer_length": 2048,
            "reward_shaping.max_response_length": 14336,
            "reward_scaling.enabled": True,
            "reward_scaling.target_min": -1.0,
        },
    ),
    **under(
        "loss_fn",
        {
            **without(CLIPPED_LOSS, "use_cispo"),
            "reference_policy_kl_penalty": Key(("float",), 0.0, {"min": 0}),
            "ratio_clip_max": Key(("float",), 0.28, {"min": 0}),
            "ratio_clip_c": Key(("float",), 10, {"nullable": True, "exclusive_min": 1}),
        },
    ),
    "value_loss_fn.scale": Key(("float",), 0.4, {"min": 0}),
    "value_loss_fn.cliprange": Key(("float",), 0.2, {"nullable": True, "exclusive_min": 0}),
    **checkpointing("val:accuracy", True, 10, keep=5),
    **policy("policy", "Qwen/Qwen2.5-1.5B", (512, 4), 16384, optimizer(1.0e-6, 0.01, [0.9, 0.999], 1.0e-8, True), True),
    "policy.generation_batch_size": Key(("int",), 64, {"min": 1}),
    "policy.sequence_packing.enabled": True,
    **policy(
        "value", "${policy.model_name}", (512, 4), 16384, optimizer(1.0e-5, 0.01, [0.9, 0.999], 1.0e-8, True), False
    ),
    "value.train_global_batch_size": Key(("int",), "${policy.train_global_batch_size}", {"min": 1}),
    "value.train_micro_batch_size": Key(("int",), "${policy.train_micro_batch_size}", {"min": 1}),
    "value.max_total_sequence_length": Key(("int",), "${policy.max_total_sequence_length}", {"min": 1}),
    "value.reward_model_cfg.enabled": True,
    "value.reward_model_cfg.reward_model_type": "regression",
    **data(False),
    "data.max_input_seq_length": Key(("int",), 2048, {"min": 1}),
    "env": free({"math": {"num_workers": 8, "math_verify_impl": "dapo_math_verify"}}),
    **logger(monitor=False),
    **CLUSTER,
}
SFT = {
    **under("sft", {**offline(60, 10, 8, 32, True), "only_unmask_final": False}),
    **checkpointing("val:val_loss", False, 10, saves_hf=False),
    **policy(
        "policy", "meta-llama/Llama-3.2-1B", (32, 1), 1024, optimizer(5.0e-6, 0.1, [0.9, 0.98], 1.0e-5, True), False
    ),
    **under("policy.megatron_cfg", LINEAR_CE),
    **data(False, add_bos=True, add_eos=True, add_generation_prompt=False, add_system_prompt=False),
    **logger(),
    **CLUSTER,
}
DPO = {
    **under(
        "dpo",
        {
            **offline(150, 25, 8, 8, True),
            "reference_policy_kl_penalty": Key(("float",), 0.05, {"min": 0}),
            "preference_average_log_probs": False,
            "sft_average_log_probs": ref("bool", ".preference_average_log_probs"),
            "preference_loss_weight": Key(("float",), 1, {"min": 0}),
            "sft_loss_weight": Key(("float",), 0, {"min": 0}),
        },
    ),
    **checkpointing("val:validation-default_loss", False, 50, saves_hf=False),
    **policy(
        "policy",
        "meta-llama/Llama-3.2-1B-Instruct",
        (128, 2),
        1024,
        optimizer(5.0e-6, 0.1, [0.9, 0.98], 1.0e-5, True),
        False,
    ),
    **under("policy.megatron_cfg", LINEAR_CE),
    **data(True, val_data_paths=Key(("dict",), None)),
    **logger(),
    **CLUSTER,
}
RM = {
    **under("rm", offline(-1, 16, -1, 32, False)),
    **checkpointing("val:validation-default_loss", False, ref("int", "rm.val_period"), saves_hf=False),
    **policy(
        "policy",
        "meta-llama/Llama-3.2-1B-Instruct",
        (128, 1),
        8192,
        optimizer(2.0e-6, 0.1, [0.9, 0.98], 1.0e-5, True),
        False,
    ),
    "policy.activation_checkpointing_enabled": False,
    "policy.reward_model_cfg.enabled": True,
    "policy.reward_model_cfg.reward_model_type": Key(("str",), "bradley_terry", {"choices": ["bradley_terry"]}),
    **data(True, val_data_paths=Key(("dict",), None)),
    **logger(),
    **CLUSTER,
}
_STUDENT = optimizer(2.0e-5, 0.01, [0.9, 0.999], 1.0e-8, True)
_TENSOR_AND_CONTEXT = "${mul:${mul:${.dtensor_cfg.tensor_parallel_size}, ${.dtensor_cfg.context_parallel_size}}, 2}"
_DISTILLED = {
    "generation_batch_size": Key(("int",), 64, {"min": 1}),
    "logprob_batch_size": Key(("int",), 1, {"min": 1}),
    "make_sequence_length_divisible_by": Key(("int",), _TENSOR_AND_CONTEXT),
    "dtensor_cfg.activation_checkpointing": True,
    "dtensor_cfg.context_parallel_size": Key(("int",), 2, {"min": 1}),
    "dynamic_batching.enabled": True,
}
DISTILLATION = {
    **under(
        "distillation",
        {
            **rollouts(128, 1, 10, 1000, 20, 512),
            "val_batch_size": Key(("int",), 64, {"min": 1}),
            "topk_logits_k": Key(("int",), 64, {"min": 1}),
        },
    ),
    **under(
        "loss_fn",
        {
            "kl_type": Key(("str",), "mixed", {"choices": ["forward", "reverse", "mixed"]}),
            "mixed_kl_weight": Key(("float",), 0.5, {"min": 0, "max": 1}),
            "zero_outside_topk": False,
        },
    ),
    **checkpointing("val:accuracy", True, 10),
    **policy("policy", "Qwen/Qwen3-1.7B-Base", (64, 1), 8192, _STUDENT, True),
    **under("policy", _DISTILLED),
    "policy.dtensor_cfg.tensor_parallel_size": Key(("int",), 2, {"min": 1}),
    **policy("teacher", "Qwen/Qwen3-4B", (64, 1), 8192, _STUDENT, True),
    **under("teacher", _DISTILLED),
    "teacher.dtensor_cfg.tensor_parallel_size": Key(("int",), 4, {"min": 1}),
    **data(False),
    "env": free({"math": {"num_workers": 8}}),
    **logger(),
    "logger.num_val_samples_to_print": Key(("int",), 5, {"min": 0}),
    **CLUSTER,
}
EXAMPLES = {
    "grpo_math_1B.yaml": GRPO,
    "ppo_math_1B.yaml": PPO,
    "sft.yaml": SFT,
    "dpo.yaml": DPO,
    "rm.yaml": RM,
    "distillation_math.yaml": DISTILLATION,
}
METHODS = {
    "grpo": GRPO,
    "grpo-lora": GRPO,
    "maxrl": GRPO,
    "ppo": PPO,
    "sft": SFT,
    "dpo": DPO,
    "rm": RM,
    "distillation": DISTILLATION,
    "opsd": DISTILLATION,
}
