"""Reads the runner's records from an out dir: `outcome.json`. What a job wrote is checked before it is believed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from tuneplane.contract.outcome import Outcome
from tuneplane.contract.words import OUTCOME_FILE

MAX_OUTCOME_BYTES = 1024 * 1024


def read_outcome(out_dir: Path, job_id: str, attempt: int, rank: int = 0) -> dict[str, Any] | None:
    """The outcome record of a machine of an attempt as plain values; None when there is none, or none of this attempt.

    Raises `OSError` when the storage root cannot be asked: that is not the same as no record.
    """
    try:
        with (out_dir / _file_of(rank)).open("rb") as file:
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


def _file_of(rank: int) -> str:
    """As the runner names them: `outcome.json` of the first machine, `outcome.1.json` of the next."""
    if rank == 0:
        return OUTCOME_FILE
    stem, _dot, extension = OUTCOME_FILE.rpartition(".")
    return f"{stem}.{rank}.{extension}"


class OutcomeReader:
    """Reads the records that are asked for at about the same time in one turn of a thread: hundreds of live runs are looked
    at every other second, and most of them have no record yet.
    """

    def __init__(self) -> None:
        self._asked: list[_Asked] = []
        self._reading: asyncio.Task[None] | None = None

    async def read(self, out_dir: Path, job_id: str, attempt: int, rank: int = 0) -> dict[str, Any] | None:
        """As `read_outcome`."""
        answer: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(out_dir, job_id, attempt, rank, answer))
        if self._reading is None:
            self._reading = asyncio.create_task(self._read(), name="outcomes")
        return await answer

    async def _read(self) -> None:
        try:
            while self._asked:
                asked, self._asked = self._asked, []
                found = await asyncio.to_thread(lambda batch: [_found(item) for item in batch], asked)
                for item, (record, error) in zip(asked, found, strict=True):
                    if item.answer.cancelled():
                        continue
                    if error is not None:
                        item.answer.set_exception(error)
                    else:
                        item.answer.set_result(record)
        finally:
            self._reading = None


class _Asked(NamedTuple):
    out_dir: Path
    job_id: str
    attempt: int
    rank: int
    answer: asyncio.Future[dict[str, Any] | None]


def _found(asked: _Asked) -> tuple[dict[str, Any] | None, Exception | None]:
    """Of one that cannot be read the others must not suffer."""
    try:
        return read_outcome(asked.out_dir, asked.job_id, asked.attempt, asked.rank), None
    except Exception as error:  # noqa: BLE001 - raised where it was asked for
        return None, error
