"""Where a listing of evaluations goes on."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """The last one that was listed: its run and attempt."""

    job_id: str
    attempt: int
