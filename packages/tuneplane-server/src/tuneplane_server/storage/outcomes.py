"""Reads the runner's records from an out dir: `outcome.json`. What a job wrote is checked before it is believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tuneplane.contract.outcome import Outcome
from tuneplane.contract.words import OUTCOME_FILE

MAX_OUTCOME_BYTES = 1024 * 1024


def read_outcome(out_dir: Path, job_id: str, attempt: int) -> dict[str, Any] | None:
    """The outcome record of an attempt as plain values; None when there is none, or none of this attempt.

    Raises `OSError` when the storage root cannot be asked: that is not the same as no record.
    """
    try:
        with (out_dir / OUTCOME_FILE).open("rb") as file:
            content = file.read(MAX_OUTCOME_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        outcome = Outcome.model_validate_json(content)
    except ValidationError:
        return None
    if (outcome.job, outcome.attempt) != (job_id, attempt):
        return None
    return outcome.to_json()
