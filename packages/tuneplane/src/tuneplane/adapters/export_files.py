"""Goes into an export job beside `export_start.py`: which files of a checkpoint are the model's, and whether an export is whole.

Standard library only, CPython 3.9 to 3.14.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
from typing import Any, Dict, Iterable, List, Optional

CONFIG, ADAPTER_CONFIG = "config.json", "adapter_config.json"
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
# What is the trainer's, so that it can go on, or says something about the training alone.
_TRAINERS = re.compile(
    r"(?:optimizer|scheduler|scaler)\.(?:pt|bin)|optimizer_\d*|rng_state(?:_\d+)?\.pth|trainer_state\.json|training_args\.bin|"
    r"global_step\d+|iter_\d+|pytorch_model_fsdp.*|latest|latest_checkpointed_iteration\.txt|zero_to_fp32\.py|COMPLETE|args\.json|"
    r"\..*|tuneplane-.*\.json"
)
_WORDS = re.compile(
    r"tokenizer.*|special_tokens_map\.json|added_tokens\.json|vocab\.(?:json|txt)|merges\.txt|.*\.(?:model|tiktoken|jinja)|"
    r"chat_template\.json|(?:.*_)?preprocessor_config\.json|processor_config\.json|additional_chat_templates"
)


class ExportError(Exception):
    """One sentence for the log: what, where, and what to do."""


def copy_model(source: str, target: str) -> None:
    """The model's files, in a new directory `target`."""
    os.makedirs(target)
    _copy(source, target, (name for name in os.listdir(source) if not _TRAINERS.fullmatch(name)))


def copy_words(source: str, target: str) -> bool:
    """Tokenizer, processor and chat template, where `target` has none yet; whether there were any."""
    if not os.path.isdir(source):
        return False
    names = [name for name in os.listdir(source) if _WORDS.fullmatch(name)]
    _copy(source, target, (name for name in names if not os.path.exists(os.path.join(target, name))))
    return bool(names)


def _copy(source: str, target: str, names: Iterable[str]) -> None:
    for name in sorted(names):
        path = os.path.join(source, name)
        if os.path.isdir(path):
            shutil.copytree(path, os.path.join(target, name))
        else:
            shutil.copyfile(path, os.path.join(target, name))


def check(directory: str) -> Dict[str, Any]:
    """{files, bytes, adapter} of a whole export. Raises `ExportError` with what is missing."""
    names = set(os.listdir(directory))
    adapter = ADAPTER_CONFIG in names
    read_json(os.path.join(directory, ADAPTER_CONFIG if adapter else CONFIG))
    for name in _weight_files(directory, names, adapter):
        _check_weights(os.path.join(directory, name))
    sizes = [os.path.getsize(os.path.join(folder, name)) for folder, _, found in os.walk(directory) for name in found]
    return {"files": len(sizes), "bytes": sum(sizes), "adapter": adapter}


def _weight_files(directory: str, names: Iterable[str], adapter: bool) -> List[str]:
    if adapter:
        found = [name for name in ADAPTER_WEIGHTS if name in names]
    else:
        index = next((name for name in INDEXES if name in names), None)
        found = [name for name in ("model.safetensors", "pytorch_model.bin") if name in names]
        if index is not None:
            shards = read_json(os.path.join(directory, index)).get("weight_map")
            found = sorted({str(name) for name in shards.values()}) if isinstance(shards, dict) else []
    if not found:
        raise ExportError(f"the export holds no weights: {directory}")
    return found


def _check_weights(path: str) -> None:
    if not os.path.isfile(path) or os.path.getsize(path) == 0:
        raise ExportError(f"{os.path.basename(path)} is missing or empty")
    if path.endswith(".safetensors"):
        ends = [entry["data_offsets"][1] for entry in tensors_of(path).values()]
        if not ends:
            raise ExportError(f"{os.path.basename(path)} holds no tensors")


def tensors_of(path: str) -> Dict[str, Any]:
    """Name -> {dtype, shape, data_offsets} of a safetensors file: 8 bytes length, a JSON header, then the data."""
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8).ljust(8, b"\0"))
            header = json.loads(file.read(length)) if 0 < length <= size else {}
    except (OSError, ValueError) as error:
        raise ExportError(f"{path} cannot be read: {error}") from error
    found = {name: entry for name, entry in header.items() if name != "__metadata__"}
    if size < 8 + length + max((entry["data_offsets"][1] for entry in found.values()), default=0):
        raise ExportError(f"{path} is cut off")
    return found


def read_json(path: str) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except OSError as error:
        raise ExportError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ExportError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ExportError(f"{path} holds no keys and values")
    return value


def write_json(path: str, value: Dict[str, Any]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2, sort_keys=True, ensure_ascii=False)
        file.write("\n")


def settle(part: str, target: str) -> None:
    """To the disk, then under its name: whoever sees the directory sees a whole one."""
    for folder, _, names in os.walk(part):
        for name in [*names, ""]:
            _sync(os.path.join(folder, name))
    os.rename(part, target)
    _sync(os.path.dirname(target))


def _sync(path: str) -> None:
    descriptor: Optional[int] = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
