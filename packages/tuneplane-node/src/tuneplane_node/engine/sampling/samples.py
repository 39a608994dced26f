"""What a look at the machine gives: plain values, no I/O.

Figures by name, all floats; one that cannot be read is left out, never guessed.

    machine   cpu (percent of all cores), memory_used, disk_used (bytes), disk_read, disk_write, net_in, net_out (bytes a second)
    card      use (percent), memory_used (bytes), temperature (°C), power (W), ecc_errors and ecc_corrected (uncorrected and corrected memory
              errors since the driver started), slowed (1 while heat or lack of power slows it down, else 0)
    job       cpu (cores), memory_used (bytes), disk_read, disk_write (bytes a second)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

type Figures = Mapping[str, float]


@dataclass(frozen=True)
class CardSample:
    """One card. An invented one has no figures: nothing of it is measured."""

    index: int
    simulated: bool
    figures: Figures = field(default_factory=dict)


@dataclass(frozen=True)
class JobSample:
    """One running container or process group of ours, found by its labels."""

    labels: Mapping[str, str]
    figures: Figures


@dataclass(frozen=True)
class MachineSample:
    """`time`: Unix seconds. Rates are since the sample before; the first has none. `problem`: why the cards said nothing,
    or a runtime did not say which jobs it has."""

    time: float
    hostname: str
    figures: Figures
    cards: tuple[CardSample, ...] = ()
    jobs: tuple[JobSample, ...] = ()
    problem: str = ""
