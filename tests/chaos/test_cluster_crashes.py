"""Console, daemons, cables, current and clocks of a cluster fail at random; what was promised must hold.

`TUNEPLANE_CHAOS_SEED` repeats a storm, `TUNEPLANE_CHAOS_ROUNDS` says how long it is; see docs/development/chaos.md.
"""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos import cluster_bench
from tests.chaos.cluster_bench import ClusterBench
from tests.chaos.cluster_storm import ClusterStorm
from tests.chaos.test_crashes import ROUNDS, SEED
from tests.chaos.verdict import judge
from tests.chaos.witness import Witness
from tests.services.cluster_network import Network

CLUSTER_ROUNDS = max(1, ROUNDS * 4 // 10)

pytestmark = [pytest.mark.services, pytest.mark.timeout(400 + 30 * CLUSTER_ROUNDS)]


@pytest.fixture
def bench(cluster_network: Network, tmp_path: Path) -> Iterator[ClusterBench]:
    made = cluster_bench.prepare(cluster_network, tmp_path)
    yield made
    made.cluster.close()  # what runs on the nodes ends with their network


def test_a_storm_over_a_cluster_loses_nothing_and_doubles_nothing(bench: ClusterBench) -> None:
    faulthandler.cancel_dump_traceback_later()  # a long storm is no hanging test: each wait in it is bounded
    print(f"TUNEPLANE_CHAOS_SEED={SEED} TUNEPLANE_CHAOS_ROUNDS={ROUNDS}", flush=True)
    with Witness(bench.api) as witness:
        storm = ClusterStorm(bench, witness, "cluster", SEED)
        try:
            for number in range(CLUSTER_ROUNDS):
                storm.round(number)
                if (number + 1) % 20 == 0:
                    print(f"cluster: {number + 1} of {CLUSTER_ROUNDS} rounds", flush=True)
            storm.calm()
            faults = judge(storm)
        except BaseException:
            print("\n".join(storm.journal))
            raise
    phases = sorted(seen[-1][1] for seen in witness.history.values())
    print(f"cluster: {CLUSTER_ROUNDS} rounds, {len(storm.hits)} attempts hit, {witness.looks} looks,",
          ", ".join(f"{phases.count(phase)} {phase}" for phase in dict.fromkeys(phases)))  # fmt: skip
    assert not faults, "\n".join([f"seed {SEED}", *faults, "", *storm.journal])
