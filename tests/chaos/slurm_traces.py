"""What storms over Slurm may excuse: which attempts Slurm's controller can have been wrong about when it was killed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from tests.chaos.storm import CONTROLLER, NUMBER


@dataclass(frozen=True)
class Trace:
    """What an attempt left in `slurm/`. `first`, `over`: when it was submitted first, and when it was proved to be over (Unix seconds);
    `numbers`: those that Slurm gave its jobs.
    """

    run: str
    attempt: int
    first: float
    over: float
    numbers: frozenset[int]


def traces(storage: Path) -> Iterator[Trace]:
    """Of every attempt that Slurm may have been given."""
    for directory in storage.glob("projects/*/*/jobs/*/attempts/*/slurm"):
        intents = [json.loads(path.read_text()) for path in directory.glob("intent-*.json")]
        if not intents:
            continue
        over = directory / "over.json"
        yield Trace(
            directory.parents[2].name,
            int(directory.parent.name),
            min(item["first"] for item in intents),
            json.loads(over.read_text())["at"] if over.exists() else inf,
            frozenset(item["slurm_id"] for item in intents if item["slurm_id"] is not None),
        )


def excuses(found: Sequence[Trace], run: str, attempt: int, killed: Iterable[float]) -> set[str]:
    """`CONTROLLER`: Slurm had the attempt when its controller was killed, at one of these times. `NUMBER`: the controller forgot an
    attempt of this number, one that was submitted earlier or later.
    """
    mine = next((item for item in found if (item.run, item.attempt) == (run, attempt)), None)
    if mine is None:
        return set()
    twice = any(item is not mine and item.numbers & mine.numbers for item in found)
    alive = any(mine.first <= at <= mine.over for at in killed)
    return ({CONTROLLER} if alive else set()) | ({NUMBER} if twice else set())
