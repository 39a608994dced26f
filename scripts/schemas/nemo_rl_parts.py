"""What the example files of NeMo RL 0.7.0 share, for `nemo_rl_keys.py`: models, their parallelism and optimizers, generation, data, logs, checkpoints.

A plain value is the default, and its type the key's. `Key` says more: types other than the default's, an interpolation as default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Key:
    """`types` as in a schema; a default of None may be null; `facts`: choices and bounds."""

    types: tuple[str, ...]
    default: Any = None
    facts: dict[str, Any] = field(default_factory=dict)


def ref(kind: str, text: str) -> Key:
    """A default that OmegaConf computes from other keys."""
    return Key((kind,), "${" + text + "}")


def maybe(*kinds: str) -> Key:
    """null unless it is set."""
    return Key(kinds)


def number(value: float) -> Key:
    """A float whose default is written as a whole number."""
    return Key(("float",), value)


def free(value: Any = None) -> Key:
    """Keys and values of any name, which NeMo RL hands on."""
    return Key(("dict",), {} if value is None else value)


def under(section: str, keys: dict[str, Any]) -> dict[str, Any]:
    return {f"{section}.{name}": value for name, value in keys.items()}


def without(keys: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if key not in names}


LORA = {
    "enabled": False,
    "target_modules": Key(("list[str]",), []),
    "exclude_modules": Key(("list[str]",), []),
    "match_all_linear": True,
    "dim": Key(("int",), 8, {"min": 1}),
    "alpha": Key(("int",), 32, {"min": 1}),
    "dropout": Key(("float",), 0.0, {"min": 0, "max": 1}),
    "dropout_position": Key(("str",), "post", {"choices": ["pre", "post"]}),
    "lora_A_init": Key(("str",), "xavier", {"choices": ["xavier", "uniform"]}),
    "use_triton": True,
}
DTENSOR = {
    "_v2": True,
    "enabled": True,
    "cpu_offload": False,
    "sequence_parallel": False,
    "activation_checkpointing": False,
    "tensor_parallel_size": Key(("int",), 1, {"min": 1}),
    "context_parallel_size": Key(("int",), 1, {"min": 1}),
    "custom_parallel_plan": maybe("str"),
    "env_vars": free(),
    "clear_cache_every_n_steps": maybe("int"),
    "dp_replicate_size": Key(("int",), 1, {"min": 1}),
    "automodel_kwargs": free(),
    **under("lora_cfg", LORA),
}
FP8 = {"enabled": False, "fp8": "e4m3", "fp8_recipe": "blockwise", "fp8_param": False}
PEFT = {
    "enabled": False,
    "target_modules": Key(("list[str]",), []),
    "exclude_modules": Key(("list[str]",), []),
    "dim": Key(("int",), 8, {"min": 1}),
    "alpha": Key(("int",), 32, {"min": 1}),
    "dropout": Key(("float",), 0.0, {"min": 0, "max": 1}),
    "dropout_position": Key(("str",), "post", {"choices": ["pre", "post"]}),
    "lora_A_init_method": "xavier",
    "lora_B_init_method": "zero",
    "a2a_experimental": False,
    "lora_dtype": Key(("str",), "None"),  # the example says the text None, not null
}
# The optimizer and scheduler of the Megatron backend; each method has rates of its own.
MEGATRON_OPTIMIZER = {
    "optimizer": "adam",
    "lr": Key(("float",), 5.0e-6, {"min": 0}),
    "min_lr": Key(("float",), 5.0e-7, {"min": 0}),
    "weight_decay": Key(("float",), 0.01, {"min": 0}),
    "bf16": True,
    "fp16": False,
    "params_dtype": "float32",
    "adam_beta1": Key(("float",), 0.9, {"min": 0, "exclusive_max": 1}),
    "adam_beta2": Key(("float",), 0.999, {"min": 0, "exclusive_max": 1}),
    "adam_eps": Key(("float",), 1.0e-8, {"min": 0}),
    "sgd_momentum": 0.9,
    "use_distributed_optimizer": True,
    "use_precision_aware_optimizer": True,
    "clip_grad": ref("float", "policy.max_grad_norm"),
    "optimizer_cpu_offload": False,
    "optimizer_offload_fraction": Key(("float",), 0.0, {"min": 0, "max": 1}),
}
MEGATRON_SCHEDULER = {
    "start_weight_decay": ref("float", "policy.megatron_cfg.optimizer.weight_decay"),
    "end_weight_decay": ref("float", "policy.megatron_cfg.optimizer.weight_decay"),
    "weight_decay_incr_style": "constant",
    "lr_decay_style": "constant",
    "lr_decay_iters": 1000,
    "lr_warmup_iters": 13,
    "lr_warmup_init": 5.0e-7,
}
MEGATRON_DDP = {
    "grad_reduce_in_fp32": False,
    "overlap_grad_reduce": True,
    "overlap_param_gather": True,
    "use_custom_fsdp": False,
    "data_parallel_sharding_strategy": "optim_grads_params",
}
MEGATRON = {
    "enabled": False,
    "force_reconvert_from_hf": False,
    "empty_unused_memory_level": 1,
    "activation_checkpointing": False,
    "recompute_granularity": Key(("str",), "full", {"choices": ["full", "selective"]}),
    "recompute_modules": maybe("list[str]"),
    "tensor_model_parallel_size": Key(("int",), 1, {"min": 1}),
    "expert_tensor_parallel_size": Key(("int",), 1, {"min": 1}),
    "expert_model_parallel_size": Key(("int",), 1, {"min": 1}),
    "pipeline_model_parallel_size": Key(("int",), 1, {"min": 1}),
    "context_parallel_size": Key(("int",), 1, {"min": 1}),
    "num_layers_in_first_pipeline_stage": maybe("int"),
    "num_layers_in_last_pipeline_stage": maybe("int"),
    "pipeline_dtype": ref("str", "policy.precision"),
    "sequence_parallel": False,
    "freeze_moe_router": True,
    "moe_router_dtype": Key(("str",), "fp64"),
    "moe_router_load_balancing_type": "none",
    "moe_router_bias_update_rate": 0.0,
    "moe_permute_fusion": True,
    "apply_rope_fusion": True,
    "bias_activation_fusion": True,
    "defer_fp32_logits": False,
    "moe_per_layer_logging": False,
    "moe_enable_deepep": False,
    "moe_token_dispatcher_type": "alltoall",
    "moe_shared_expert_overlap": False,
    "gradient_accumulation_fusion": False,
    "use_fused_weighted_squared_relu": False,
    "env_vars": Key(("dict",), None),
    **under("peft", PEFT),
    **under("optimizer", MEGATRON_OPTIMIZER),
    **under("scheduler", MEGATRON_SCHEDULER),
    **under("distributed_data_parallel_config", MEGATRON_DDP),
    **under("fp8_cfg", FP8),
}
MEGATRON_MTP = {
    "mtp_num_layers": 0,
    "mtp_loss_scaling_factor": 0.0,
    "mtp_use_repeated_layer": False,
    "mtp_detach_heads": False,
}
LINEAR_CE = {"use_linear_ce_fusion_loss": False, "linear_ce_fusion_chunk_size": 256}


def optimizer(lr: float, weight_decay: float, betas: list[float], eps: float, switches: bool) -> dict[str, Any]:
    """torch's optimizer: `kwargs` goes to the class that `name` names, so it takes what that class takes."""
    kwargs: dict[str, Any] = {
        "lr": Key(("float",), lr, {"min": 0}),
        "weight_decay": Key(("float",), weight_decay, {"min": 0}),
        "betas": Key(("list[float]",), betas, {"min": 0, "exclusive_max": 1, "length": 2}),
        "eps": Key(("float",), eps, {"min": 0}),
    }
    if switches:
        kwargs.update({"foreach": False, "fused": False})
    return {"name": "torch.optim.AdamW", "kwargs": free(), **under("kwargs", kwargs)}


def batching(section: str, logprob: bool) -> dict[str, Any]:
    product = f"{{mul:${{{section}.max_total_sequence_length}}, ${{{section}.train_micro_batch_size}}}}"
    logprobs = product.replace("train_micro_batch_size", "logprob_batch_size")
    tokens: dict[str, Any] = {"train_mb_tokens": Key(("int",), "$" + product)}
    if logprob:
        tokens["logprob_mb_tokens"] = Key(("int",), "$" + logprobs)
    return {
        **under("dynamic_batching", {"enabled": False, **tokens, "sequence_length_round": 64}),
        **under(
            "sequence_packing",
            {"enabled": False, **tokens, "algorithm": "modified_first_fit_decreasing", "sequence_length_round": 64},
        ),
    }


VLLM = {
    "async_engine": False,
    "precision": ref("str", "policy.precision"),
    "kv_cache_dtype": "auto",
    "tensor_parallel_size": Key(("int",), 1, {"min": 1}),
    "pipeline_parallel_size": Key(("int",), 1, {"min": 1}),
    "expert_parallel_size": Key(("int",), 1, {"min": 1}),
    "gpu_memory_utilization": Key(("float",), 0.6, {"exclusive_min": 0, "max": 1}),
    "max_model_len": ref("int", "policy.max_total_sequence_length"),
    "enforce_eager": False,
    "use_tqdm": True,
    "use_deep_gemm": False,
    "num_last_layers_in_bf16": 0,
    "num_first_layers_in_bf16": 0,
    "enable_vllm_metrics_logger": True,
    "vllm_metrics_logger_interval": 0.5,
    "distributed_executor_backend": maybe("str"),
}
GENERATION = {
    "port_range_low": 11001,
    "port_range_high": 15000,
    "backend": Key(("str",), "vllm", {"choices": ["vllm", "sglang", "megatron"]}),
    "max_new_tokens": Key(("int",), "${policy.max_total_sequence_length}", {"min": 1}),
    "temperature": Key(("float",), 1.0, {"min": 0}),
    "top_p": Key(("float",), 1.0, {"exclusive_min": 0, "max": 1}),
    "top_k": maybe("int"),
    "stop_token_ids": maybe("list[int]"),
    "stop_strings": maybe("list[str]"),
    "vllm_kwargs": free(),
    "mcore_generation_config": free(),
    "sglang_cfg": free(),
    **under("vllm_cfg", VLLM),
    "colocated.enabled": True,
    "colocated.resources.gpus_per_node": maybe("int"),
    "colocated.resources.num_nodes": maybe("int"),
}


def policy(
    section: str, model: str, batch: tuple[int, int], length: int, optimizer_keys: dict[str, Any], generates: bool
) -> dict[str, Any]:
    """One model: `policy`, the `value` model of PPO, the `teacher` of distillation. `batch`: global, per GPU."""
    keys: dict[str, Any] = {
        "model_name": model,
        "tokenizer.name": ref("str", f"{section}.model_name"),
        "tokenizer.chat_template": Key(("str",), None),
        "tokenizer.chat_template_kwargs": Key(("dict",), None),
        "hf_config_overrides": free(),
        "train_global_batch_size": Key(("int",), batch[0], {"min": 1}),
        "train_micro_batch_size": Key(("int",), batch[1], {"min": 1}),
        "max_total_sequence_length": Key(("int",), length, {"min": 1}),
        "precision": Key(("str",), "bfloat16", {"choices": ["bfloat16", "float16", "float32"]}),
        "offload_optimizer_for_logprob": False,
        "make_sequence_length_divisible_by": Key(("int",), f"${{{section}.dtensor_cfg.tensor_parallel_size}}"),
        "max_grad_norm": Key(("float",), 1.0, {"min": 0}),
        "scheduler": Key(("list", "dict"), None),
        **under("dtensor_cfg", DTENSOR),
        **under("megatron_cfg", MEGATRON),
        **batching(section, generates),
        **under("optimizer", optimizer_keys),
    }
    if generates:
        keys.update(
            {
                "generation_batch_size": Key(("int",), 32, {"min": 1}),
                "logprob_batch_size": Key(("int",), f"${{{section}.train_micro_batch_size}}", {"min": 1}),
                "logprob_chunk_size": maybe("int"),
                **under("generation", GENERATION),
            }
        )
    return under(section, keys)


def data_set(preference: bool) -> dict[str, Any]:
    shared = {
        "dataset_name": Key(("str",), None),
        "data_path": Key(("str",), None),
        "subset": maybe("str"),
        "split": maybe("str"),
        "prompt_file": maybe("str"),
        "system_prompt_file": maybe("str"),
    }
    if preference:
        return {**shared, "prompt_key": maybe("str"), "chosen_key": maybe("str"), "rejected_key": maybe("str")}
    return {
        **shared,
        "input_key": maybe("str"),
        "output_key": maybe("str"),
        "env_name": maybe("str"),
        "processor": maybe("str"),
        "download_dir": maybe("str"),
        "split_validation_size": Key(("float",), None, {"min": 0, "exclusive_max": 1}),
        "seed": maybe("int"),
        "repeat": maybe("int"),
    }


def data(preference: bool, **own: Any) -> dict[str, Any]:
    keys: dict[str, Any] = {
        "max_input_seq_length": Key(("int",), "${policy.max_total_sequence_length}", {"min": 1}),
        "shuffle": True,
        "num_workers": Key(("int",), 1, {"min": 0}),
        **own,
    }
    for part in ("train", "validation", "default"):
        # A list of data sets, or the keys of one.
        keys[part] = Key(("dict",) if preference or part == "default" else ("dict", "list"), None)
        keys.update(under(part, data_set(preference)))
    return under("data", keys)


def logger(monitor: bool = True) -> dict[str, Any]:
    keys: dict[str, Any] = {
        "log_dir": "logs",
        "num_val_samples_to_print": Key(("int",), 0, {"min": 0}),
        "monitor_gpus": monitor,
        "gpu_monitoring.collection_interval": number(10),
        "gpu_monitoring.flush_interval": number(10),
        "tensorboard_enabled": False,
        "tensorboard": free(),
    }
    for name in ("wandb", "swanlab", "mlflow"):
        keys.update({f"{name}_enabled": False, name: free()})
    return under("logger", keys)


def checkpointing(metric: str, higher: bool, period: Any, keep: int = 3, saves_hf: bool = True) -> dict[str, Any]:
    keys: dict[str, Any] = {
        "enabled": True,
        "checkpoint_dir": "results",
        "metric_name": Key(("str",), metric, {"nullable": True}),
        "higher_is_better": higher,
        "keep_top_k": Key(("int",), keep, {"nullable": True, "min": 1}),
        "save_period": period if isinstance(period, Key) else Key(("int",), period, {"min": 1}),
        "checkpoint_must_save_by": maybe("str"),
        "save_optimizer": True,
        "pretrained_checkpoint": Key(("dict",), None),
        "model_cache_dir": maybe("str"),
        "model_repo_id": maybe("str"),
        "is_async": False,
    }
    if saves_hf:
        formats = {"choices": ["safetensors", "torch_save"], "nullable": True}
        keys.update({"model_save_format": Key(("str",), "safetensors", formats), "save_consolidated": False})
    return under("checkpointing", keys)


CLUSTER = under(
    "cluster",
    {
        "gpus_per_node": 1,
        "num_nodes": 1,
        "master_port_range_low": 25000,
        "master_port_range_high": 28000,
        "segment_size": maybe("int"),
    },
)
