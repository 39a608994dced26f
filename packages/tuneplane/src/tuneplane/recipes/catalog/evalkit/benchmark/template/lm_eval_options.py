"""The settings in the words of lm-eval's models and of its generation."""

from typing import Any

import torch
from settings import Settings


def model_arguments(settings: Settings, model: dict[str, Any]) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "pretrained": model["base"] or model["name"],
        "dtype": settings.dtype,
        "trust_remote_code": settings.trust_remote_code,
    }
    if model["base"] and settings.backend != "hf":
        raise SystemExit(
            f"backend {settings.backend} takes no adapters here: set backend: hf, or merge them first, with tp export"
        )
    if model["base"]:
        arguments |= {"peft": model["name"], "tokenizer": model["tokenizer"]}
    if model["revision"]:
        arguments["revision"] = model["revision"]
    if settings.max_length:
        arguments["max_model_len" if settings.backend == "vllm" else "max_length"] = settings.max_length
    cards = torch.cuda.device_count()
    if settings.backend == "vllm":
        arguments["tensor_parallel_size"] = max(1, cards)
    elif cards > 1:
        arguments["parallelize"] = True  # layers over all cards
    return arguments


def generation(settings: Settings) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if settings.max_new_tokens is not None:
        options["max_gen_toks"] = settings.max_new_tokens
    if settings.temperature is not None:
        options |= {"temperature": settings.temperature, "do_sample": settings.temperature > 0}
    return options
