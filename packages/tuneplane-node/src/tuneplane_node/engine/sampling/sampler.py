"""One look at everything: the machine, its cards, the jobs of this console on it."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tuneplane_node.engine.inventory import Gpu
from tuneplane_node.engine.sampling.cards import CardReader, CardsUnreadableError, NvidiaSmi
from tuneplane_node.engine.sampling.counters import Rates
from tuneplane_node.engine.sampling.jobs import JobPlace, JobReader, JobUse
from tuneplane_node.engine.sampling.machine import MachineReader
from tuneplane_node.engine.sampling.samples import CardSample, JobSample, MachineSample

MACHINE = "machine"
PERCENT = 100.0


class Sampler:
    """`simulated`: invented cards, which take the place of the real ones and are never measured. `wall` gives Unix seconds,
    `steady` seconds that never step back."""

    def __init__(
        self,
        state_root: Path,
        simulated: Sequence[Gpu] = (),
        *,
        cards: CardReader | None = None,
        machine: MachineReader | None = None,
        jobs: JobReader | None = None,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._simulated = tuple(simulated)
        self._cards: CardReader = cards or NvidiaSmi()
        self._machine, self._jobs = machine or MachineReader(state_root), jobs or JobReader()
        self._wall, self._steady = wall, steady
        self._rates = Rates()

    async def sample(self, places: Sequence[JobPlace], problems: Sequence[str] = ()) -> MachineSample:
        """`places`: the jobs that may be running; `problems`: why some are not among them. Files are read in a thread; rates are
        since the call before."""
        cards, problem = await self._read_cards()
        levels, counts, uses, now = await asyncio.to_thread(self._read_files, places)
        rates = self._rates.since(MACHINE, now, counts)
        jobs = [JobSample(use.place.labels, self._job_figures(use, now)) for use in uses]
        self._rates.keep_only([MACHINE, *(use.rate_key for use in uses)])
        return MachineSample(
            self._wall(),
            socket.gethostname(),
            levels | _machine_rates(rates),
            cards,
            tuple(jobs),
            " ".join(filter(None, [problem, *problems])),
        )

    async def _read_cards(self) -> tuple[tuple[CardSample, ...], str]:
        if self._simulated:
            return tuple(CardSample(gpu.index, simulated=True) for gpu in self._simulated), ""
        try:
            found = await self._cards.read()
        except CardsUnreadableError as error:
            return (), str(error)
        return tuple(CardSample(card.index, simulated=False, figures=card.figures) for card in found), ""

    def _read_files(self, places: Sequence[JobPlace]) -> tuple[dict[str, float], dict[str, float], list[JobUse], float]:
        return self._machine.levels(), self._machine.counts(), self._jobs.read(places), self._steady()

    def _job_figures(self, use: JobUse, now: float) -> dict[str, float]:
        return use.levels | self._rates.since(use.rate_key, now, use.counts)


def _machine_rates(rates: dict[str, float]) -> dict[str, float]:
    """CPU time becomes a share of what all cores had in the same time."""
    figures = {name: rate for name, rate in rates.items() if not name.startswith("cpu_")}
    if rates.get("cpu_all", 0.0) > 0 and "cpu_busy" in rates:
        figures["cpu"] = min(PERCENT, PERCENT * rates["cpu_busy"] / rates["cpu_all"])
    return figures
