"""Bounds of TRL's configuration keys, each with where it comes from; `record_trl.py` proves every one when it records the schema.

Dataclasses carry types, not bounds. A bound is here only for a reason, which `Bound.source` names:
`refused` TRL or transformers refuses the value when the config is made; `library` the library that gets the value refuses it;
`said` the class's own documentation says so (the words are quoted); `meaning` the quantity has no other reading
(a count of things is at least 1, a probability lies in 0 to 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

ALL = ("SFTConfig", "DPOConfig", "KTOConfig", "RewardConfig", "GRPOConfig", "RLOOConfig", "SDFTConfig")
REFERENCE = ("DPOConfig", "KTOConfig", "GRPOConfig", "RLOOConfig")
REWARDED = ("GRPOConfig", "RLOOConfig")
SELF = ("SDFTConfig",)
ONLINE = (*REWARDED, *SELF)
MODEL = ("ModelConfig",)


@dataclass(frozen=True)
class Bound:
    """`limits` holds min, max, exclusive_min, exclusive_max, choices and type; `words` the quote of `said`; `out_of_bounds` values that are refused.

    Named classes must have the key; of `ALL`, those that have it.
    """

    classes: tuple[str, ...]
    key: str
    limits: dict[str, Any]
    source: str
    words: str = ""
    out_of_bounds: tuple[Any, ...] = ()
    given: dict[str, Any] = field(default_factory=dict)  # other keys needed for the refusal
    refuse: Callable[[Any], Any] | None = None  # calls the library with the value


def _adamw(**options: Any) -> Any:
    import torch

    return torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], **options)


def _batches(**options: Any) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader([0, 1], **options)


def _seed(value: int) -> None:
    from transformers import set_seed

    set_seed(value)


def _temperature(value: float) -> Any:
    from transformers.generation.logits_process import TemperatureLogitsWarper

    return TemperatureLogitsWarper(value)


def _repetition(value: float) -> Any:
    from transformers.generation.logits_process import RepetitionPenaltyLogitsProcessor

    return RepetitionPenaltyLogitsProcessor(value)


def _new_tokens(value: int) -> None:
    from transformers import GenerationConfig

    GenerationConfig(max_new_tokens=value).validate(strict=True)


def _dropout(value: float) -> Any:
    import torch

    return torch.nn.Dropout(value)


def _lora_rank(value: int) -> Any:
    import torch
    from peft import LoraConfig, get_peft_model

    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    return get_peft_model(model, LoraConfig(r=value, target_modules=["0"]))


def _meaning(classes: tuple[str, ...], limits: dict[str, Any], *keys: str) -> list[Bound]:
    return [Bound(classes, key, limits, "meaning") for key in keys]


def _said(classes: tuple[str, ...], key: str, words: str, **limits: Any) -> Bound:
    return Bound(classes, key, limits, "said", words=words)


def _library(
    classes: tuple[str, ...], key: str, refuse: Callable[[Any], Any], bad: tuple[Any, ...], **limits: Any
) -> Bound:
    return Bound(classes, key, limits, "library", out_of_bounds=bad, refuse=refuse)


def _refused(classes: tuple[str, ...], key: str, bad: Any, given: dict[str, Any] | None = None, **limits: Any) -> Bound:
    return Bound(classes, key, limits, "refused", out_of_bounds=(bad,), given=given or {})


TRAINER = [
    _library(ALL, "learning_rate", lambda value: _adamw(lr=value), (-1e-9,), min=0),
    _library(ALL, "adam_beta1", lambda value: _adamw(betas=(value, 0.9)), (-0.1, 1.0), min=0, exclusive_max=1),
    _library(ALL, "adam_beta2", lambda value: _adamw(betas=(0.9, value)), (-0.1, 1.0), min=0, exclusive_max=1),
    _library(ALL, "adam_epsilon", lambda value: _adamw(eps=value), (-1e-9,), min=0),
    _library(ALL, "weight_decay", lambda value: _adamw(weight_decay=value), (-0.1,), min=0),
    _library(ALL, "per_device_train_batch_size", lambda value: _batches(batch_size=value), (0, -1), min=1),
    _library(ALL, "per_device_eval_batch_size", lambda value: _batches(batch_size=value), (0, -1), min=1),
    _library(ALL, "dataloader_num_workers", lambda value: _batches(num_workers=value), (-1,), min=0),
    _library(ALL, "seed", _seed, (-1, 2**32), min=0, max=2**32 - 1),
    _refused(ALL, "warmup_steps", -1, min=0),
    _refused(ALL, "logging_steps", 0, exclusive_min=0),
    _refused(ALL, "torch_empty_cache_steps", 0, min=1),
    _refused(ALL, "debug", "nonsense", choices=["", "underflow_overflow", "tpu_metrics_debug"]),
    _said(ALL, "eval_steps", "Should be an integer or a float in range `[0,1)`", min=0),
    _said(ALL, "save_steps", "Should be an integer or a float in range `[0,1)`", min=0),
    *_meaning(ALL, {"exclusive_min": 0}, "num_train_epochs"),
    *_meaning(ALL, {"min": -1}, "max_steps"),
    *_meaning(ALL, {"min": 1}, "gradient_accumulation_steps", "max_length", "eval_accumulation_steps"),
    *_meaning(ALL, {"min": 1}, "dataset_num_proc", "dataloader_prefetch_factor", "ddp_bucket_cap_mb"),
    *_meaning(ALL, {"min": 0}, "max_grad_norm", "save_total_limit", "eval_delay", "neftune_noise_alpha", "ddp_timeout"),
    *_meaning(ALL, {"min": 0, "max": 1}, "label_smoothing_factor"),
    *_meaning(ALL, {"min": 0}, "router_aux_loss_coef"),
]
PREFERENCE = [
    _said(("DPOConfig",), "label_smoothing", "must lie in [0.0, 0.5)", min=0, exclusive_max=0.5),
    _said(("DPOConfig",), "ld_alpha", "Must be in [0.0, 1.0]", min=0, max=1),
    _said(
        ("DPOConfig",),
        "f_divergence_type",
        "Possible values are: `reverse_kl` (default), `forward_kl`, `js_divergence`, `alpha_divergence`.",
        choices=["reverse_kl", "forward_kl", "js_divergence", "alpha_divergence"],
    ),
    _said(
        ("DPOConfig",),
        "loss_type",
        "Possible values are: `'sigmoid'`, `'hinge'`, `'ipo'`, `'exo_pair'`, `'nca_pair'`, `'robust'`, `'bco_pair'`, "
        "`'sppo_hard'`, `'aot'`, `'aot_unpaired'`, `'apo_zero'`, `'apo_down'`, `'discopop'`, `'sft'`, `'sigmoid_norm'`.",
        choices=[
            "sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot", "aot_unpaired",
            "apo_zero", "apo_down", "discopop", "sft", "sigmoid_norm",
        ],
    ),
    *_meaning(("DPOConfig", "KTOConfig"), {"min": 0}, "beta"),
    *_meaning(("DPOConfig", "KTOConfig"), {"min": 1}, "precompute_ref_batch_size"),
    *_meaning(("DPOConfig",), {"exclusive_min": 0}, "discopop_tau"),
    *_meaning(("KTOConfig",), {"min": 0}, "desirable_weight", "undesirable_weight"),
    *_meaning(("RewardConfig",), {"min": 0}, "center_rewards_coefficient"),
    *_meaning(REFERENCE, {"min": 0, "max": 1}, "ref_model_mixup_alpha"),
    *_meaning(REFERENCE, {"min": 1}, "ref_model_sync_steps"),
]  # fmt: skip
GENERATION = [
    _refused(REWARDED, "num_generations", 1, {"generation_batch_size": 8}, min=2),
    _library(ONLINE, "max_completion_length", _new_tokens, (0, -1), min=1),
    _library(ONLINE, "temperature", _temperature, (0.0, -1.0), exclusive_min=0),
    _library(ONLINE, "repetition_penalty", _repetition, (0.0, -1.0), exclusive_min=0),
    _said(ONLINE, "top_p", "Must be in (0, 1]", exclusive_min=0, max=1),
    _said(ONLINE, "top_k", "If `0`, top-k-filtering is disabled and all tokens are considered", min=0),
    _said(ONLINE, "min_p", "must be a value between 0.0 and 1.0", min=0, max=1),
    _said(REWARDED, "beta", "If `0.0`", min=0),
    _said(ONLINE, "vllm_mode", "Must be one of `'server'` or `'colocate'`", choices=["server", "colocate"]),
    _said(ONLINE, "vllm_model_impl", "Must be one of `transformers` or `vllm`", choices=["transformers", "vllm"]),
    *_meaning(ONLINE, {"min": 1}, "num_iterations", "generation_batch_size", "steps_per_generation"),
    *_meaning(REWARDED, {"min": 2}, "num_generations_eval"),
    *_meaning(REWARDED, {"min": 0}, "epsilon", "epsilon_high"),
    *_meaning(ONLINE, {"min": 1, "max": 65535}, "vllm_server_port", "vllm_group_port"),
    *_meaning(ONLINE, {"exclusive_min": 0, "max": 1}, "vllm_gpu_memory_utilization"),
    *_meaning(ONLINE, {"min": 1}, "vllm_tensor_parallel_size", "vllm_max_model_length"),
    _said(("GRPOConfig",), "top_entropy_quantile", "Range: `[0.0-1.0]`", min=0, max=1),
    _said(("GRPOConfig",), "off_policy_mask_threshold", "It expects a positive value", exclusive_min=0),
    *_meaning(("GRPOConfig",), {"exclusive_min": 0}, "delta"),
    _said(
        ("GRPOConfig",),
        "scale_rewards",
        "`False` or `'none'`: no scaling is applied",
        type=["bool", "str"],  # the annotation says str alone; the documentation and the code take both
        choices=["group", "batch", "none"],
    ),
    _said(
        ("GRPOConfig",),
        "loss_type",
        "Supported values are 'grpo', 'dr_grpo', 'dapo', 'bnpo', 'cispo', 'sapo', 'luspo', and 'vespo'",
        choices=["grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"],
    ),
    _said(
        ("GRPOConfig",),
        "importance_sampling_level",
        "ratios are computed at the `'token'` or `'sequence'` level",
        choices=["token", "sequence"],
    ),
    _said(
        ("GRPOConfig",),
        "multi_objective_aggregation",
        "`'normalize_then_sum'`",
        choices=["sum_then_normalize", "normalize_then_sum"],
    ),
    _said(
        ("GRPOConfig",),
        "vllm_importance_sampling_mode",
        "Supported options are: 'token_truncate', 'token_mask', 'sequence_truncate', and 'sequence_mask'",
        choices=["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"],
    ),
]
SELF_DISTILLATION = [
    _said(
        SELF,
        "teacher_model_kind",
        "`base` uses the initial student, `live` uses the current student, and `ema` uses an exponentially averaged "
        "teacher",
        choices=["base", "live", "ema"],
    ),
    *_meaning(SELF, {"min": 1}, "num_generations", "num_generations_eval", "max_prompt_length"),
    *_meaning(SELF, {"min": 1}, "distillation_topk", "teacher_sync_steps"),
    *_meaning(SELF, {"min": 0, "max": 1}, "distillation_alpha", "teacher_update_rate"),
    *_meaning(SELF, {"exclusive_min": 0}, "distillation_is_clip", "vllm_server_timeout"),
    *_meaning(SELF, {"min": 0}, "num_loss_tokens_to_skip"),
]
ADAPTERS = [
    _library(MODEL, "lora_r", _lora_rank, (0, -1), min=1),
    _library(MODEL, "lora_dropout", _dropout, (-0.1, 1.1), min=0, max=1),
    *_meaning(MODEL, {"min": 1}, "lora_alpha"),
]
BOUNDS = [*TRAINER, *PREFERENCE, *GENERATION, *SELF_DISTILLATION, *ADAPTERS]
