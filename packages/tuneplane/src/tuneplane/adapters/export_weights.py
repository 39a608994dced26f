"""Goes into an export job beside `export_start.py`: what needs torch, transformers and peft, all of the training image."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional, Tuple

from tuneplane.adapters.export_files import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    CONFIG,
    INDEXES,
    ExportError,
    copy_words,
    read_json,
    tensors_of,
    write_json,
)

LORA_WITHOUT_SCALE = (
    "these are weights of LoRA in a checkpoint of the trainer, which does not say how they are scaled; "
    "export the model that the run saved at its end"
)
_HEADS = ("score.weight", "classifier.weight")


def merge(adapter: str, base: str, target: str, dtype: Optional[str]) -> None:
    """The base model with the adapter's weights added to its own, in a new directory `target`."""
    import torch
    from peft import PeftModel

    model, named = _base_model(adapter, base, getattr(torch, dtype) if dtype else "auto")
    _fit_vocabulary(model, adapter)
    tuned = PeftModel.from_pretrained(model, adapter)
    if not hasattr(tuned, "merge_and_unload"):
        kind = read_json(os.path.join(adapter, ADAPTER_CONFIG)).get("peft_type")
        raise ExportError(f"an adapter of kind {kind} cannot be merged; export it without --merge-lora")
    merged = tuned.merge_and_unload(safe_merge=True)
    if dtype:
        merged = merged.to(getattr(torch, dtype))  # an adapter in 32 bits may have left some so
    merged.save_pretrained(target)
    if not copy_words(adapter, target) and not copy_words(named, target):
        save_words(named, target)


def _base_model(adapter: str, given: str, dtype: Any) -> Tuple[Any, str]:
    """(the model that the adapter was trained over, its name). The adapter's own word counts before that of the JobSpec."""
    import transformers

    config = read_json(os.path.join(adapter, ADAPTER_CONFIG))
    named = str(config.get("base_model_name_or_path") or "")
    if not named or (named.startswith("/") and not os.path.isdir(named)):
        named = given
    if not named:
        raise ExportError("nobody says which base model the adapter belongs to: its adapter_config.json names none")
    more: Dict[str, Any] = {"revision": config["revision"]} if config.get("revision") and named != given else {}
    known = transformers.AutoConfig.from_pretrained(named, **more)
    if config.get("task_type") == "SEQ_CLS":
        kind: Any = transformers.AutoModelForSequenceClassification
        more["num_labels"] = _labels(adapter)
    else:
        wanted = (getattr(known, "architectures", None) or [""])[0]
        kind = getattr(transformers, wanted, None) or transformers.AutoModelForCausalLM
    print(f"merging into {named}", flush=True)
    return kind.from_pretrained(named, dtype=dtype, **more), named


def _adapter_tensors(adapter: str) -> Dict[str, Any]:
    path = os.path.join(adapter, ADAPTER_WEIGHTS[0])
    return tensors_of(path) if os.path.isfile(path) else {}


def _labels(adapter: str) -> int:
    """How many outputs the trained head has: one with a reward model."""
    shapes = [entry["shape"] for name, entry in _adapter_tensors(adapter).items() if name.endswith(_HEADS)]
    return int(shapes[0][0]) if shapes else 1


def _fit_vocabulary(model: Any, adapter: str) -> None:
    """Tokens that were added for the training: peft keeps the embeddings then, and they fit no model without them."""
    rows = {
        int(entry["shape"][0])
        for name, entry in _adapter_tensors(adapter).items()
        if name.endswith(("embed_tokens.weight", "embed_tokens.modules_to_save.weight", "wte.weight"))
    }
    if len(rows) == 1 and model.get_input_embeddings().weight.shape[0] not in rows:
        model.resize_token_embeddings(rows.pop())


def add_config(base: str, target: str) -> None:
    """Configuration and tokenizer of the base model, for weights that came without."""
    import transformers

    if not base:
        raise ExportError("nobody says which base model these weights belong to")
    transformers.AutoConfig.from_pretrained(base).save_pretrained(target)
    if not copy_words(base, target):
        save_words(base, target)


def save_words(base: str, target: str) -> None:
    """The tokenizer of a model that only has a name."""
    import transformers

    transformers.AutoTokenizer.from_pretrained(base).save_pretrained(target)


def from_pickles(directory: str) -> None:
    """`pytorch_model*.bin`, as converters write it, becomes safetensors, where each name has numbers of its own.

    Raises `ExportError` for the weights of LoRA, which say nothing without their scale.
    """
    names = [
        name for name in sorted(os.listdir(directory)) if name.startswith("pytorch_model") and name.endswith(".bin")
    ]
    if not names:
        return
    import torch
    from safetensors.torch import save_file

    renamed: Dict[str, str] = {}
    for name in names:
        path, new = os.path.join(directory, name), "model" + name[len("pytorch_model") : -len(".bin")] + ".safetensors"
        found = torch.load(path, map_location="cpu", weights_only=True)
        if any(".lora_" in key for key in found):
            raise ExportError(LORA_WITHOUT_SCALE)
        # Tied weights share their numbers in the pickle, which safetensors refuse.
        own = {key: value.clone().contiguous() for key, value in found.items() if isinstance(value, torch.Tensor)}
        renamed.update(dict.fromkeys(own, new))
        save_file(own, os.path.join(directory, new), metadata={"format": "pt"})
        os.remove(path)
    index = os.path.join(directory, "pytorch_model.bin.index.json")
    if os.path.isfile(index):
        known = read_json(index)
        write_json(os.path.join(directory, INDEXES[0]), {**known, "weight_map": renamed})
        os.remove(index)


def cast(directory: str, dtype: str) -> None:
    """All weights of a directory in another number format, file by file, whatever model they belong to."""
    import torch

    wanted = getattr(torch, dtype)
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        if name.endswith(".safetensors"):
            _cast_safetensors(path, wanted)
        elif name.endswith(".bin") and name.startswith(("pytorch_model", "adapter_model")):
            found = torch.load(path, map_location="cpu", weights_only=True)
            torch.save({key: _as(value, wanted) for key, value in found.items()}, path)
    _note_dtype(directory, dtype)


def _cast_safetensors(path: str, wanted: Any) -> None:
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {"format": "pt"}
    changed = {name: _as(value, wanted) for name, value in load_file(path).items()}
    save_file(changed, path + ".new", metadata=metadata)
    os.replace(path + ".new", path)


def _as(value: Any, wanted: Any) -> Any:
    """Numbers of 8 bits and whole numbers mean something else than their value."""
    import torch

    return value.to(wanted) if value.dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16) else value


def _note_dtype(directory: str, dtype: str) -> None:
    path = os.path.join(directory, CONFIG)
    if os.path.isfile(path):
        config = read_json(path)
        if not _replace_dtype(config, dtype):
            config["dtype"] = dtype
        write_json(path, config)
    for name in INDEXES:
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            index = read_json(path)
            shards = sorted(set(index.get("weight_map", {}).values()))
            size = sum(os.path.getsize(os.path.join(directory, shard)) for shard in shards)
            write_json(path, {**index, "metadata": {**(index.get("metadata") or {}), "total_size": size}})


def _replace_dtype(config: Dict[str, Any], dtype: str) -> bool:
    """Also that of the parts of a model of several modalities."""
    known = [name for name in ("dtype", "torch_dtype") if name in config]
    for name in known:
        config[name] = dtype
    for value in config.values():
        if isinstance(value, dict):
            _replace_dtype(value, dtype)
    return bool(known)
