"""Bounds of ms-swift's flags, each with where it comes from; `record_ms_swift.py` writes them into the schema.

ms-swift's argument classes carry types, not bounds. `refused`: ms-swift or transformers refuses the value when it takes the arguments (the file
that does is named); `meaning`: the quantity has no other reading (a count of things is at least 1, a share lies in 0 to 1). A key is
bounded in every method whose parser has it as a number, unless `methods` names some.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bound:
    keys: tuple[str, ...]
    limits: dict[str, Any]
    source: str
    methods: tuple[str, ...] = ()


def _meaning(limits: dict[str, Any], keys: str, methods: tuple[str, ...] = ()) -> Bound:
    return Bound(tuple(keys.split()), limits, "meaning", methods)


MEGATRON = ("megatron-sft", "megatron-rlhf", "megatron-grpo")
BOUNDS = [
    _meaning(
        {"min": 1},
        "per_device_train_batch_size per_device_eval_batch_size gradient_accumulation_steps eval_accumulation_steps max_length "
        "max_model_len max_completion_length max_epochs logging_steps early_stop_interval dataset_num_proc packing_num_proc "
        "packing_length shuffle_buffer_size dataloader_prefetch_factor sequence_parallel_size num_labels num_beams max_pixels "
        "torch_empty_cache_steps lora_rank vera_rank galore_rank reft_rank adapter_length lora_ga_batch_size lora_ga_iters "
        "ref_model_sync_steps num_iterations num_generations num_generations_eval steps_per_generation generation_batch_size "
        "max_resample_times max_turns gkd_logits_topk vllm_tensor_parallel_size vllm_pipeline_parallel_size vllm_max_num_seqs "
        "vllm_data_parallel_size vllm_max_model_len vllm_max_lora_rank repetition_n_grams num_ppo_epochs num_mini_batches",
    ),
    _meaning(
        {"min": 1},
        "micro_batch_size global_batch_size train_iters num_train_epochs recompute_num_layers save_steps eval_steps "
        "tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size expert_model_parallel_size "
        "expert_tensor_parallel_size virtual_pipeline_model_parallel_size mtp_num_layers muon_num_ns_steps lr_decay_iters",
        MEGATRON,
    ),
    _meaning(
        {"min": 0},
        "learning_rate weight_decay max_grad_norm warmup_steps adam_epsilon adam_eps lr min_lr lr_warmup_init lr_warmup_iters clip_grad "
        "start_weight_decay end_weight_decay dataloader_num_workers neftune_noise_alpha router_aux_loss_coef aligner_lr vit_lr "
        "muon_lr muon_min_lr eval_delay ddp_timeout beta rpo_alpha cpo_alpha desirable_weight undesirable_weight sft_alpha "
        "center_rewards_coefficient epsilon epsilon_high sdar_loss_coef temperature lisa_activated_layers lora_ga_stable_gamma "
        "teacher_kl_coef moe_z_loss_coeff manual_gc_steps vllm_server_timeout",
    ),
    _meaning({"min": 0}, "save_steps eval_steps", ("sft", "reranker", "rlhf", "dpo", "cpo", "grpo")),
    _meaning({"exclusive_min": 0}, "num_train_epochs", ("sft", "reranker", "rlhf", "dpo", "cpo", "grpo")),
    _meaning({"exclusive_min": 0}, "lora_alpha repetition_penalty delta tau_pos tau_neg real_tau discopop_tau"),
    _meaning({"min": 0, "max": 1}, "lora_dropout boft_dropout vera_dropout freeze_parameters_ratio label_smoothing_factor"),
    _meaning({"min": 0, "max": 1}, "lmbda ref_model_mixup_alpha top_entropy_quantile min_p lr_warmup_fraction ld_alpha"),
    _meaning({"min": 0, "exclusive_max": 1}, "adam_beta1 adam_beta2 split_dataset_ratio muon_momentum sgd_momentum"),
    _meaning({"min": 0, "max": 0.5}, "label_smoothing"),
    _meaning({"exclusive_min": 0, "max": 1}, "top_p vllm_gpu_memory_utilization optimizer_offload_fraction"),
    _meaning({"min": -1}, "max_steps eval_iters top_k"),
    _meaning({"min": 1, "max": 65535}, "vllm_server_port vllm_server_group_port"),
    _meaning({"min": 0, "max": 2}, "sleep_level"),
    Bound(("seed", "data_seed"), {"min": 0, "max": 2**32 - 1}, "refused: transformers, trainer_utils.py, set_seed (numpy)"),
    Bound(("warmup_ratio",), {"min": 0, "exclusive_max": 1}, "refused: swift/trainers/arguments.py, _handle_hf_removed_args"),
    Bound(("save_total_limit",), {"min": 0}, "meaning", ("sft", "reranker", "rlhf", "dpo", "cpo", "grpo")),
    Bound(("save_total_limit",), {"min": 2}, "refused: swift/megatron/arguments/megatron_args.py, __post_init__", MEGATRON),
    Bound(("rlsd_lambda",), {"min": 0, "max": 1}, "refused: swift/arguments/rlhf_args.py, _check_rlsd"),
    Bound(("rlsd_reweight_clip_range",), {"min": 0}, "refused: swift/arguments/rlhf_args.py, _check_rlsd"),
    Bound(("sdar_gate_beta",), {"exclusive_min": 0}, "refused: swift/arguments/rlhf_args.py, _check_sdar"),
]  # fmt: skip

_DPO_LOSSES = [
    "sigmoid",
    "hinge",
    "ipo",
    "exo_pair",
    "nca_pair",
    "robust",
    "bco_pair",
    "sppo_hard",
    "aot",
    "aot_unpaired",
    "apo_zero",
    "apo_down",
    "discopop",
    "sft",
]
_GRPO_LOSSES = ["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "real", "fipo"]
_TIMES = ["no", "steps", "epoch"]
# Texts that are checked after the parser, where the parser itself takes any: method -> key -> choices.
CHOICES: dict[str, dict[str, list[str]]] = {
    "dpo": {"loss_type": _DPO_LOSSES},  # swift/rlhf_trainers/dpo_trainer.py, dpo_loss
    "cpo": {"loss_type": ["sigmoid", "hinge", "ipo", "simpo"]},  # trl 0.29, experimental/cpo/cpo_trainer.py, cpo_loss
    "grpo": {"loss_type": _GRPO_LOSSES},  # swift/rlhf_trainers/grpo_trainer.py, _compute_loss_and_metrics
    "megatron-grpo": {"loss_type": _GRPO_LOSSES},  # swift/megatron/trainers/grpo_trainer.py
    "reranker": {
        "loss_type": ["pointwise_reranker", "listwise_reranker"],  # swift/loss/mapping.py
        "task_type": ["reranker", "generative_reranker"],
    },
    "sft": {"eval_strategy": _TIMES},  # transformers, IntervalStrategy
}
CHOICES["reranker"]["eval_strategy"] = _TIMES
for _method in ("rlhf", "dpo", "cpo", "grpo"):
    CHOICES.setdefault(_method, {})["eval_strategy"] = _TIMES
REQUIRED = {"reranker": ("task_type",)}
