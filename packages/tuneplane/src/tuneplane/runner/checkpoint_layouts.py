"""Checkpoints that are not in Hugging Face's layout: how each framework shows that one is whole.

NeMo RL 0.7 (`nemo_rl/utils/checkpoint.py`) writes `tmp_step_<n>` and renames it to `step_<n>` last. DeepSpeed 0.19 (`runtime/engine.py`,
`save_checkpoint`) writes the tag into `latest` beside the folders when all ranks have written theirs; verl and Megatron write the step into
`latest_checkpointed_iteration.txt` then. ms-swift 4.6 (`swift/megatron/utils/megatron_lm_utils.py`, `save_mcore_checkpoint`) has a file of that name
in each `checkpoint-<n>`, beside `iter_<n>` with Megatron's shards.
"""

from __future__ import annotations

import os
import re
from typing import Optional, Set, Tuple

_DEEPSPEED, _MEGATRON = "latest", "latest_checkpointed_iteration.txt"
_ACTOR, _CRITIC = "_actor", "_critic"  # OpenRLHF's reinforcement learning: two models, a folder and a pointer each
_NUMBER = re.compile(r"(\d{1,15})\Z")


def layout_problem(path: str, names: Set[str], expect_optimizer: bool) -> Tuple[bool, Optional[str]]:
    """(whether the layout is known, why no run can resume from it). `names` are the entries of the directory."""
    if "training_info.json" in names:
        return True, _nemo_rl_problem(path, names)
    if any(name.endswith("_model_states.pt") for name in names):
        return True, _deepspeed_problem(path, names, expect_optimizer) or _critic_problem(path, expect_optimizer)
    if _MEGATRON in names or any(name.startswith("iter_") for name in names):
        return True, _swift_megatron_problem(path)
    if os.path.isfile(os.path.join(os.path.dirname(path), _MEGATRON)) and names:
        return True, _verl_problem(names) or _pointer_problem(path, _MEGATRON)
    return False, None


def _nemo_rl_problem(path: str, names: Set[str]) -> Optional[str]:
    if "policy" not in names or not _has_files(os.path.join(path, "policy", "weights")):
        return "it holds no model weights"
    return None


def _deepspeed_problem(path: str, names: Set[str], expect_optimizer: bool) -> Optional[str]:
    states = sorted(name for name in names if name.endswith("_states.pt"))
    for name in states:
        try:
            if os.stat(os.path.join(path, name)).st_size == 0:
                return f"{name} is empty"
        except OSError as error:
            return f"{name} cannot be read: {error.strerror or error}"
    if expect_optimizer and not any("_optim_states" in name for name in states):
        return "it holds no optimizer state"
    return _pointer_problem(path, _DEEPSPEED)


def _critic_problem(path: str, expect_optimizer: bool) -> Optional[str]:
    """Both models are saved at the same time; DeepSpeed begins one anew without a word when its part is not there."""
    folder, name = os.path.split(path)
    root, part = os.path.split(folder)
    if part != _ACTOR or not os.path.isdir(os.path.join(root, _CRITIC)):
        return None
    critic = os.path.join(root, _CRITIC, name)
    try:
        names = set(os.listdir(critic))
    except OSError as error:
        return f"its critic cannot be read: {error.strerror or error}"
    if not any(name.endswith("_model_states.pt") for name in names):
        return "its critic holds no model weights"
    problem = _deepspeed_problem(critic, names, expect_optimizer)
    return problem and f"its critic: {problem}"


def _pointer_problem(path: str, pointer: str) -> Optional[str]:
    """A step up to the one that the pointer names was written to its end."""
    try:
        with open(os.path.join(os.path.dirname(path), pointer), encoding="utf-8", errors="replace") as file:
            named = _NUMBER.search(file.read(400).strip())
    except OSError:
        return f"there is no {pointer} beside it: it was cut off while being written"
    own = _NUMBER.search(os.path.basename(path))
    if named is None or own is None or int(own.group(1)) > int(named.group(1)):
        return f"{pointer} does not name it yet: it is still being written, or was cut off"
    return None


def _verl_problem(names: Set[str]) -> Optional[str]:
    """Of an old checkpoint verl removes the weights, by `max_actor_ckpt_to_keep`, and leaves the folder and what else is in it."""
    if names <= {"data.pt", "transfer_queue", "critic"}:
        return "its weights were removed, as max_actor_ckpt_to_keep asks"
    return None


def _swift_megatron_problem(path: str) -> Optional[str]:
    try:
        with open(os.path.join(path, _MEGATRON), encoding="utf-8", errors="replace") as file:
            step = file.read(40).strip()
    except OSError:
        return f"there is no {_MEGATRON} in it: it was cut off while being written"
    shards = os.path.join(path, f"iter_{step.zfill(7)}")
    try:
        names = os.listdir(shards)
    except OSError as error:
        return f"iter_{step.zfill(7)} cannot be read: {error.strerror or error}"
    if not any(name.endswith(".distcp") for name in names):
        return "it holds weights to use, but no state to resume from (no_save_optim)"
    if not {"metadata.json", ".metadata"} & set(
        names
    ):  # written when all shards are, which async_save does after the file above
        return "its shards are still being written, or were cut off"
    return None


def _has_files(directory: str) -> bool:
    return any(files for _, _, files in os.walk(directory))
