"""Which directories are checkpoints, and whether a run can resume from them (scenario 31): HF's layout, others by `checkpoint_layouts`."""

from __future__ import annotations

import json
import os
import re
import struct
from typing import Any, Dict, List, Optional

from tuneplane.runner.checkpoint_layouts import layout_problem

MARKER = "COMPLETE"  # a script with a layout of its own writes this empty file last
_STEP = re.compile(r"(?:^|[-_]|step)(\d{1,15})\Z")  # checkpoint-8, step_8, global_step8
SHARDED = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
WHOLE = ("model.safetensors", "pytorch_model.bin", "adapter_model.safetensors", "adapter_model.bin")
_OPTIMIZER = ("optimizer.pt", "optimizer.bin")
_UNFINISHED = (".tmp", ".incomplete", ".part")


def step_of(path: str) -> int:
    """The step in a checkpoint's name (`checkpoint-120` → 120), 0 when it names none."""
    match = _STEP.search(os.path.basename(path))
    return int(match.group(1)) if match else 0


def problem_of(path: str, expect_optimizer: bool = True) -> Optional[str]:
    """Why no run can resume from the checkpoint at `path`, None when one can. Reads names, sizes and small headers only.

    The trainer writes `trainer_state.json` last, so a directory without it is still being written or was cut off.
    """
    try:
        names = set(os.listdir(path))
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    unfinished = sorted(name for name in names if name.endswith(_UNFINISHED) or name.startswith("tmp-"))
    if unfinished:
        return f"{unfinished[0]} is still being written"
    if MARKER in names:
        return None
    if "trainer_state.json" not in names:
        known, problem = layout_problem(path, names, expect_optimizer)
        if known:
            return problem
        if names & (set(WHOLE) | set(SHARDED) | set(_OPTIMIZER)):
            return "trainer_state.json is missing: it was cut off while being written"
        return f"its layout is not known; a script of your own marks a whole one with an empty file {MARKER}"
    return (
        _state_problem(path)
        or _weights_problem(path, names)
        or (_resume_problem(path, names) if expect_optimizer else None)
    )


def _state_problem(path: str) -> Optional[str]:
    state = _read_json(os.path.join(path, "trainer_state.json"))
    if state is None:
        return "trainer_state.json is cut off"
    step = step_of(path)
    if step and state.get("global_step") != step:
        return f"trainer_state.json is of step {state.get('global_step')}, not {step}"
    return None


def _weights_problem(path: str, names: set[str]) -> Optional[str]:
    for index_name in SHARDED:
        if index_name not in names:
            continue
        index = _read_json(os.path.join(path, index_name))
        shards = index.get("weight_map") if index else None
        if not isinstance(shards, dict) or not shards:
            return f"{index_name} is cut off"
        for shard in sorted({str(name) for name in shards.values()}):
            if shard not in names:
                return f"shard {shard} is missing"
            problem = _file_problem(path, shard)
            if problem:
                return problem
        return None
    whole = [name for name in WHOLE if name in names]
    if not whole:
        # DeepSpeed and FSDP keep sharded weights in directories of their own.
        if any(name.startswith(("global_step", "pytorch_model_fsdp")) for name in names):
            return None
        return "it holds no model weights"
    return next((problem for problem in (_file_problem(path, name) for name in whole) if problem), None)


def _resume_problem(path: str, names: set[str]) -> Optional[str]:
    sharded = any(name.startswith(("global_step", "optimizer_")) for name in names)
    optimizer = [name for name in _OPTIMIZER if name in names]
    if not optimizer and not sharded:
        return "it holds no optimizer state"
    if optimizer and _file_problem(path, optimizer[0]):
        return _file_problem(path, optimizer[0])
    if "scheduler.pt" not in names and not sharded:
        return "it holds no scheduler state"
    ranks = sorted(int(name[10:-4]) for name in names if re.match(r"rng_state_\d+\.pth\Z", name))
    if "rng_state.pth" not in names and not ranks:
        return "it holds no random state"
    if ranks and ranks != list(range(len(ranks))):
        return f"the random state of a rank is missing (found {len(ranks)}, highest {ranks[-1]})"
    return None


def _file_problem(directory: str, name: str) -> Optional[str]:
    """Empty, or shorter than its own header says (safetensors: 8 bytes length, JSON header, then the data)."""
    path = os.path.join(directory, name)
    try:
        size = os.stat(path).st_size
        if size == 0:
            return f"{name} is empty"
        if not name.endswith(".safetensors"):
            return None
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8).ljust(8, b"\0"))
            header = json.loads(file.read(length)) if 0 < length <= min(size, 100 << 20) else {}
    except (OSError, ValueError) as error:
        return f"{name} is cut off ({type(error).__name__})"
    ends = [
        entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__" and "data_offsets" in entry
    ]
    return None if header and size >= 8 + length + max(ends, default=0) else f"{name} is cut off"


def _read_json(path: str) -> Optional[Dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read(256 << 20))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def find_checkpoints(out_dir: str, globs: List[str], most: int) -> List[str]:
    """Directories below the out dir that match, relative to it, by step. A checkpoint under construction has a `tmp-` name."""
    import glob

    found: Dict[str, None] = {}
    for pattern in globs:
        if os.path.isabs(pattern) or ".." in pattern.split("/"):
            continue
        for path in glob.glob(os.path.join(glob.escape(out_dir), pattern)):
            if os.path.isdir(path) and not os.path.islink(path):
                found[os.path.relpath(path, out_dir)] = None
    return sorted(found, key=lambda path: (step_of(path), path))[-most:]
