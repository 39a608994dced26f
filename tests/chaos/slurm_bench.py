"""What a storm over Slurm runs on: a console whose jobs go to a cluster of its own, each of whose daemons can be killed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.bench import Bench, KillableConsole, Submitted, Wanted, counting_spec
from tests.e2e.slurm.consoles import console_settings
from tests.services.slurm import SlurmCluster

# What a controller that was killed has not written down is given up after so long.
LOST_SECONDS = 15


@dataclass
class SlurmBench(Bench):
    cluster: SlurmCluster = field(kw_only=True)

    def records(self) -> list[Path]:
        return []

    def temporaries(self) -> list[Path]:
        return []


def prepare(cluster: SlurmCluster) -> SlurmBench:
    folder = cluster.folder / "chaos"
    console = KillableConsole(folder / "console")
    console.settings = console_settings(console, cluster, TUNEPLANE_SLURM_LOST_SECONDS=str(LOST_SECONDS))
    console.start()
    try:
        api, spec, first = counting_spec(console, folder)
    except BaseException:
        console.stop()
        raise
    return SlurmBench(console, api, spec, None, folder, [Submitted("", first, Wanted(1, 0.01))], cluster=cluster)
