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
QUERY = (
    "index,utilization.gpu,memory.used,temperature.gpu,power.draw,"
    "ecc.errors.uncorrected.volatile.total,ecc.errors.corrected.volatile.total"
)
# Why a card runs slower than it could; the newer name first. A driver that knows neither is asked for the rest alone.
SLOWED_QUERIES = (",clocks_event_reasons.active", ",clocks_throttle_reasons.active", "")
# Heat or too little power, in the card or from outside (nvml.h, nvmlClocksEventReasons*). Not its own power limit (0x4), at which a
# card in full use always is, nor being idle (0x1).
SLOWED = 0x8 | 0x20 | 0x40 | 0x80
HOLDERS_QUERY = "gpu_uuid,pid,process_name"
# Figure -> factor from the tool's unit to ours, in the order of QUERY after the index.
_FIGURES = (
    ("use", 1.0), ("memory_used", float(MIB)), ("temperature", 1.0), ("power", 1.0), ("ecc_errors", 1.0), ("ecc_corrected", 1.0)
)  # fmt: skip


class CardsUnreadableError(Exception):
    """Nothing can be said about the cards now; the text says why."""


@dataclass(frozen=True)
class CardFigures:
    """Figures of one card by name, see `samples`; what the card does not tell is left out."""

    index: int
    figures: Mapping[str, float]


@dataclass(frozen=True)
class Holder:
    """A process that has work on a card. `pid` is None when the driver does not tell."""

    index: int
    pid: int | None
    name: str


class CardReader(Protocol):
    async def read(self) -> list[CardFigures]:
        """All real cards of this machine, by index; none on a machine without. Bounded in time. Raises `CardsUnreadableError`."""
        ...


class NvidiaSmi:
    """`program`: None looks for it each time, so that a driver that is installed later is found."""

    def __init__(self, program: str | None = None, seconds: float = SMI_SECONDS) -> None:
        self._program, self._seconds = program, seconds
        self._stuck: asyncio.subprocess.Process | None = None

        self._slowed = list(SLOWED_QUERIES)

    async def read(self) -> list[CardFigures]:
        while True:
            asked = self._slowed[0]
            try:
                printed = await self._ask(f"--query-gpu={QUERY}{asked}", "--format=csv,noheader,nounits")
            except CardsUnreadableError as problem:
                if not asked or "not a valid field" not in str(problem):
                    raise
                self._slowed.remove(asked)
            else:
                return [] if printed is None else parse_figures(printed, slowed=bool(asked))

    async def holders(self) -> list[Holder]:
        """Every process that has work on a real card of this machine; none without the tool. Raises `CardsUnreadableError`."""
        cards = await self._ask("--query-gpu=index,uuid", "--format=csv,noheader")
        if cards is None:
            return []
        printed = await self._ask(f"--query-compute-apps={HOLDERS_QUERY}", "--format=csv,noheader")
        return parse_holders(cards, printed or "")

    async def _ask(self, *arguments: str) -> str | None:
        """What the tool printed; None when there is no tool."""
        program = self._program or shutil.which("nvidia-smi")
        if program is None:
            return None
        if self._stuck is not None and self._stuck.returncode is None:
            raise CardsUnreadableError(_("an earlier call still hangs in the driver"))  # never pile them up
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *arguments,
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
        return text


def parse_holders(cards: str, printed: str) -> list[Holder]:
    """`cards`: lines `index, uuid`; `printed`: lines `uuid, pid, name` of `--query-compute-apps`, a name may hold commas. Raises
    `CardsUnreadableError` for lines of another shape: who cannot read them must not take the cards for free."""
    indexes = {}
    for line in filter(str.strip, cards.splitlines()):
        index, comma, uuid = (part.strip() for part in line.partition(","))
        if not comma or not index.isdecimal():
            raise CardsUnreadableError(cards.strip()[:500])
        indexes[uuid] = int(index)
    found = []
    for line in filter(str.strip, printed.splitlines()):
        uuid, _comma, rest = line.partition(",")
        pid, _comma, name = rest.partition(",")
        if uuid.strip() not in indexes:
            raise CardsUnreadableError(printed.strip()[:500])
        found.append(Holder(indexes[uuid.strip()], int(pid) if pid.strip().isdecimal() else None, name.strip()))
    return found


def parse_figures(text: str, slowed: bool = True) -> list[CardFigures]:
    """Cards from `nvidia-smi --query-gpu=… --format=csv,noheader,nounits`; `[N/A]`, `[Not Supported]` and errors in a cell
    leave that figure out. `slowed`: a last cell has the reasons why the card is slowed down. Raises `CardsUnreadableError` for
    a line that is none of a card."""
    cards = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        if not row:
            continue
        if len(row) != 1 + len(_FIGURES) + slowed or not row[0].strip().isdecimal():
            raise CardsUnreadableError(text.strip()[:500])
        figures = {}
        for (name, factor), cell in zip(_FIGURES, row[1:], strict=False):
            value = _number(cell)
            if value is not None:
                figures[name] = value * factor
        if slowed and (reasons := _mask(row[-1])) is not None:
            figures["slowed"] = float(bool(reasons & SLOWED))
        cards.append(CardFigures(int(row[0]), figures))
    return sorted(cards, key=lambda card: card.index)


def _mask(cell: str) -> int | None:
    try:
        return int(cell.strip(), 16) if cell.strip().startswith("0x") else None
    except ValueError:
        return None


def _number(cell: str) -> float | None:
    text = cell.strip()
    return float(text) if text.replace(".", "", 1).isdecimal() else None
