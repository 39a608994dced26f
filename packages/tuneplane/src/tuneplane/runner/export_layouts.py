"""In which form a checkpoint keeps its weights: what decides how it becomes a Hugging Face directory. Names and small files only.

Hugging Face: transformers' Trainer, ms-swift 4.6 (`swift/megatron/trainers/base.py` too: safetensors beside Megatron's shards), OpenRLHF's
final model. verl 0.9 (`verl/utils/checkpoint/fsdp_checkpoint_manager.py`): a `.pt` per rank, `fsdp_config.json`, `huggingface/`; in `actor/` with
reinforcement learning. DeepSpeed 0.19: `*_model_states.pt`. NeMo RL 0.7: `policy/weights[/model]` with `.metadata` (torch's distributed
checkpoint), or Hugging Face's own layout there (`checkpointing.save_consolidated`, LoRA).
"""

from __future__ import annotations

import os
from typing import List, NamedTuple, Optional, Set

from tuneplane.runner.checkpoints import SHARDED, WHOLE

HF, ADAPTER, VERL, DEEPSPEED, NEMO_RL = "hf", "hf-adapter", "verl-fsdp", "deepspeed", "nemo-rl-dcp"
_ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_NEMO_RL_WEIGHTS = ("policy/weights/model/consolidated", "policy/weights/model", "policy/weights")


class ExportLayout(NamedTuple):
    """`layout`: one of the words above, None when the weights are in no form that can be exported, for which `problem` says why.

    `weights`: the directory of the weights below the checkpoint, empty for itself. `adapter`: they hold a LoRA adapter. `size`: bytes
    of the files in that directory.
    """

    layout: Optional[str]
    weights: str = ""
    adapter: bool = False
    size: int = 0
    problem: str = ""


def export_layout(path: str) -> ExportLayout:
    """Look at the checkpoint in the directory `path`, which is known to be whole."""
    try:
        names = set(os.listdir(path))
    except OSError as error:
        return ExportLayout(None, problem=f"it cannot be read: {error.strerror or error}")
    found = _hugging_face(path, "", names)
    if found is not None:
        return found
    if any(name.endswith("_model_states.pt") for name in names):
        return ExportLayout(DEEPSPEED, "", False, _size(path))
    for part in ("actor", ""):
        if os.path.isfile(os.path.join(path, part, "fsdp_config.json")):
            adapter = os.path.isfile(os.path.join(path, part, "lora_train_meta.json"))
            return ExportLayout(VERL, part, adapter, _size(os.path.join(path, part)))
    if "policy" in names:
        return _nemo_rl(path)
    if any(os.path.isdir(os.path.join(path, part, "model", "dist_ckpt")) for part in ("actor", "")):
        return ExportLayout(None, problem="its weights are in shards of Megatron, which are not converted here")
    if any(name.startswith(("global_step", "pytorch_model_fsdp", "iter_")) for name in names):
        return ExportLayout(
            None, problem="its weights are in shards of the trainer, and none are in Hugging Face's layout"
        )
    return ExportLayout(None, problem="it holds no weights in a layout that is known")


def _hugging_face(path: str, weights: str, names: Set[str]) -> Optional[ExportLayout]:
    """An adapter comes first: beside it lies the configuration of its base, or nothing."""
    if "adapter_config.json" in names and names & set(_ADAPTER_WEIGHTS):
        return ExportLayout(ADAPTER, weights, True, _size(os.path.join(path, weights)))
    if "config.json" in names and names & (set(WHOLE) | set(SHARDED)):
        return ExportLayout(HF, weights, False, _size(os.path.join(path, weights)))
    return None


def _nemo_rl(path: str) -> ExportLayout:
    for weights in _NEMO_RL_WEIGHTS:
        names = set(_listed(os.path.join(path, weights)))
        found = _hugging_face(path, weights, names)
        if found is not None:
            return found
        if ".metadata" in names and os.path.isfile(os.path.join(path, "config.yaml")):
            # The converter looks for `.metadata` in `model` itself.
            return ExportLayout(NEMO_RL, "policy/weights", False, _size(os.path.join(path, weights)))
    problem = (
        "its weights are shards in safetensors; with checkpointing.save_consolidated: true NeMo RL writes whole ones"
    )
    return ExportLayout(None, problem=problem)


def _listed(path: str) -> List[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _size(path: str) -> int:
    """Optimizer states are left out: they are not exported."""
    total = 0
    for name in _listed(path):
        try:
            if "optim" not in name:
                total += os.stat(os.path.join(path, name)).st_size
        except OSError:
            continue
    return total
