"""The runner's word on how the attempt ended (contract/outcome.Outcome)."""

from __future__ import annotations

import os
from time import time
from typing import Any, Dict, Optional

from tuneplane.contract.words import OUTCOME_API_VERSION, OUTCOME_FILE
from tuneplane.runner.capsule import Capsule
from tuneplane.runner.trainer import Ending

STOPPED_BEFORE_START = 143  # exit code of the runner then: 128 + SIGTERM


def outcome_of(
    capsule: Capsule,
    machine_rank: int,
    ending: Optional[Ending],
    stopped: bool,
    reason: Optional[str],
    detail: str,
    started_at: Optional[float],
) -> Dict[str, Any]:
    """`ending` is None when the trainer was never started."""
    if stopped:
        result = "cancelled"
    elif ending is not None and ending.exit_code == 0:
        result = "succeeded"
    else:
        result = "failed"
    outcome: Dict[str, Any] = {
        "apiVersion": OUTCOME_API_VERSION,
        "job": capsule.job_id,
        "attempt": capsule.attempt,
        "machine_rank": machine_rank,
        "result": result,
        "detail": detail[:4000],
        "finished_at": time(),
        "spool_drained": False,
    }
    if ending is not None and ending.exit_code is not None:
        outcome["exit_code"] = ending.exit_code
    if ending is not None and ending.signal is not None:
        outcome["signal"] = ending.signal
    if reason is not None:
        outcome["reason"] = reason
    if started_at is not None:
        outcome["started_at"] = started_at
    return outcome


def outcome_path(out_dir: str, machine_rank: int) -> str:
    """Rank 0 speaks for the attempt; the other machines' words lie beside its."""
    if machine_rank == 0:
        return os.path.join(out_dir, OUTCOME_FILE)
    stem, extension = os.path.splitext(OUTCOME_FILE)
    return os.path.join(out_dir, f"{stem}.{machine_rank}{extension}")
