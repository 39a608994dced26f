"""The cards' figures behind one small port, and NVIDIA's own tool behind it.

nvidia-smi is what the inventory uses as well: it is wherever a driver is, and a driver that hangs hangs a process of its own, not
the console. Each look is one short process for all cards.
"""

from __future__ import annotations

import asyncio
import csv
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tuneplane.i18n import _

MIB = 1024 * 1024
SMI_SECONDS = 20.0  # without persistence mode each call wakes every card
QUERY = "index,utilization.gpu,memory.used,temperature.gpu,power.draw,ecc.errors.uncorrected.volatile.total"
# Figure -> factor from the tool's unit to ours, in the order of QUERY after the index.
_FIGURES = (("use", 1.0), ("memory_used", float(MIB)), ("temperature", 1.0), ("power", 1.0), ("ecc_errors", 1.0))


class CardsUnreadableError(Exception):
    """Nothing can be said about the cards now; the text says why."""


@dataclass(frozen=True)
class CardFigures:
    """Figures of one card by name, see `samples`; what the card does not tell is left out."""

    index: int
    figures: Mapping[str, float]


class CardReader(Protocol):
    async def read(self) -> list[CardFigures]:
        """All real cards of this machine, by index; none on a machine without. Bounded in time. Raises `CardsUnreadableError`."""
        ...


class NvidiaSmi:
    """`program`: None looks for it each time, so that a driver that is installed later is found."""

    def __init__(self, program: str | None = None, seconds: float = SMI_SECONDS) -> None:
        self._program, self._seconds = program, seconds
        self._stuck: asyncio.subprocess.Process | None = None

    async def read(self) -> list[CardFigures]:
        program = self._program or shutil.which("nvidia-smi")
        if program is None:
            return []
        if self._stuck is not None and self._stuck.returncode is None:
            raise CardsUnreadableError(_("an earlier call still hangs in the driver"))  # never pile them up
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                f"--query-gpu={QUERY}",
                "--format=csv,noheader,nounits",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        except OSError as problem:
            raise CardsUnreadableError(str(problem)) from problem
        try:
            async with asyncio.timeout(self._seconds):
                output, _errors = await process.communicate()
        except TimeoutError:
            process.kill()
            self._stuck = process
            raise CardsUnreadableError(_("no answer within {seconds:.0f} s").format(seconds=self._seconds)) from None
        text = output.decode(errors="replace")
        if process.returncode:
            raise CardsUnreadableError(text.strip()[:500])
        return parse_figures(text)


def parse_figures(text: str) -> list[CardFigures]:
    """Cards from `nvidia-smi --query-gpu=… --format=csv,noheader,nounits`; `[N/A]`, `[Not Supported]` and errors in a cell
    leave that figure out. Raises `CardsUnreadableError` for a line that is none of a card."""
    cards = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        if not row:
            continue
        if len(row) != 1 + len(_FIGURES) or not row[0].strip().isdecimal():
            raise CardsUnreadableError(text.strip()[:500])
        figures = {}
        for (name, factor), cell in zip(_FIGURES, row[1:], strict=True):
            value = _number(cell)
            if value is not None:
                figures[name] = value * factor
        cards.append(CardFigures(int(row[0]), figures))
    return sorted(cards, key=lambda card: card.index)


def _number(cell: str) -> float | None:
    text = cell.strip()
    return float(text) if text.replace(".", "", 1).isdecimal() else None
