"""Consoles, daemons, runners, trainers, supervisors and containers are killed at random; what was promised must hold.

`TUNEPLANE_CHAOS_SEED` repeats a storm, `TUNEPLANE_CHAOS_ROUNDS` says how long it is; see docs/development/chaos.md.
"""

from __future__ import annotations

import faulthandler
import os
import random
from collections.abc import Callable

import pytest

from tests.chaos.bench import Bench
from tests.chaos.storm import Storm
from tests.chaos.verdict import judge
from tests.chaos.witness import Witness

SEED = int(os.environ.get("TUNEPLANE_CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))
ROUNDS = int(os.environ.get("TUNEPLANE_CHAOS_ROUNDS") or 20)
DOCKER_ROUNDS = max(1, ROUNDS * 4 // 10)  # a container costs several processes' time to start

pytestmark = [pytest.mark.services, pytest.mark.timeout(400 + 30 * ROUNDS)]


# In Docker everything is killed, the daemon too; a long storm has half of these rounds under a daemon that lives, where more
# happens to the jobs.
STORMS = {"process": max(1, ROUNDS - DOCKER_ROUNDS), "dockerd": DOCKER_ROUNDS}
if ROUNDS > 20:
    STORMS |= {"docker": DOCKER_ROUNDS // 2, "dockerd": DOCKER_ROUNDS - DOCKER_ROUNDS // 2}


@pytest.mark.parametrize(("runtime", "rounds"), STORMS.items(), ids=list(STORMS))
def test_a_storm_loses_nothing_and_doubles_nothing(
    start_bench: Callable[[str], Bench], runtime: str, rounds: int
) -> None:
    faulthandler.cancel_dump_traceback_later()  # a long storm is no hanging test: each wait in it is bounded
    print(f"TUNEPLANE_CHAOS_SEED={SEED} TUNEPLANE_CHAOS_ROUNDS={ROUNDS}", flush=True)
    bench = start_bench("docker" if runtime == "dockerd" else runtime)
    with Witness(bench.api) as witness:
        storm = Storm(bench, witness, runtime, SEED)
        try:
            for number in range(rounds):
                storm.round(number)
                if (number + 1) % 20 == 0:
                    print(f"{runtime}: {number + 1} of {rounds} rounds", flush=True)
            storm.calm()
            faults = judge(storm)
        except BaseException:
            print("\n".join(storm.journal))
            raise
    phases = sorted(seen[-1][1] for seen in witness.history.values())
    print(f"{runtime}: {rounds} rounds, {len(storm.hits)} attempts hit, {witness.looks} looks,",
          ", ".join(f"{phases.count(phase)} {phase}" for phase in dict.fromkeys(phases)))  # fmt: skip
    assert not faults, "\n".join([f"seed {SEED}", *faults, "", *storm.journal])
