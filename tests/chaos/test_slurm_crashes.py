"""Slurm's controller, its REST daemon, the console and what jobs consist of are killed at random; what was promised must hold."""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.chaos import slurm_bench
from tests.chaos.api import NoAnswerError
from tests.chaos.slurm_bench import SlurmBench
from tests.chaos.slurm_storm import SlurmStorm
from tests.chaos.test_crashes import ROUNDS, SEED
from tests.chaos.verdict import judge
from tests.chaos.witness import TERMINAL, Witness
from tests.services.plugin import slurm_or_skip
from tests.services.slurm import VERSIONS

SLURM_ROUNDS = max(1, ROUNDS * 15 // 100)
LONG = ROUNDS > 20

pytestmark = [pytest.mark.services, pytest.mark.timeout(600 + 30 * SLURM_ROUNDS)]


@pytest.fixture(params=tuple(VERSIONS)[: None if LONG else 1])
def bench(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> Iterator[SlurmBench]:
    with slurm_or_skip(pytestconfig, request.param) as cluster:
        made = slurm_bench.prepare(cluster)
        try:
            yield made
        finally:
            made.console.stop()  # what runs in Slurm ends with the cluster


def test_a_storm_over_slurm_loses_nothing_and_doubles_nothing(bench: SlurmBench) -> None:
    faulthandler.cancel_dump_traceback_later()  # a long storm is no hanging test: each wait in it is bounded
    print(f"TUNEPLANE_CHAOS_SEED={SEED} TUNEPLANE_CHAOS_ROUNDS={ROUNDS}", flush=True)
    with Witness(bench.api) as witness:
        storm = SlurmStorm(bench, witness, "slurm", SEED, forgetting=LONG)
        try:
            for number in range(SLURM_ROUNDS):
                storm.round(number)
                if (number + 1) % 20 == 0:
                    print(f"slurm: {number + 1} of {SLURM_ROUNDS} rounds", flush=True)
            storm.calm()
            faults = judge(storm)
        except BaseException:
            print(*storm.journal, *told(bench), sep="\n")
            raise
    phases = sorted(seen[-1][1] for seen in witness.history.values())
    print(f"slurm {bench.cluster.version}: {SLURM_ROUNDS} rounds, {len(storm.hits)} attempts hit, {witness.looks} looks,",
          ", ".join(f"{phases.count(phase)} {phase}" for phase in dict.fromkeys(phases)))  # fmt: skip
    if faults:
        print(*told(bench), sep="\n")
    assert not faults, "\n".join([f"seed {SEED}", *faults, "", *storm.journal])


def told(bench: SlurmBench) -> list[str]:
    """What is known of a storm that went wrong: runs that hold something, the console's log, Slurm's jobs and its log."""
    with suppress(NoAnswerError, AssertionError):
        kept = [
            job
            for job in bench.api.items("/jobs", limit=100)
            if job["phase"] not in TERMINAL or job["cleanup"] not in ("none", "confirmed")
        ]
        open_runs = [f"{job['id']}: {bench.api.get(f'/jobs/{job["id"]}')}" for job in kept]
        return [
            *open_runs,
            bench.console.log(),
            bench.cluster.run("scontrol", "show", "jobs"),
            bench.cluster.log("slurmctld"),
        ]
    return [bench.console.log(), bench.cluster.log("slurmctld")]
