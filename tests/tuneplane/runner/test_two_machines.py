"""Two machines of one job, each with a runner of its own."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tuneplane.runner.ingest_server import IngestServer
from tests.tuneplane.runner.job_folder import JobFolder, wait_until

DEAF = (
    "trap '' TERM\nsetsid sh -c 'trap \"\" TERM HUP; echo $$ > $TUNEPLANE_OUT_DIR/child.$TUNEPLANE_MACHINE_RANK; "
    "touch $TUNEPLANE_OUT_DIR/up.$TUNEPLANE_MACHINE_RANK; while :; do sleep 1; done' &\nwhile :; do sleep 1; done\n"
)


def test_an_abort_kills_the_ranks_that_ignore_it_on_both_machines(
    make_job: Callable[..., JobFolder], console: IngestServer
) -> None:
    """Scenario 23, the runner's part: after the grace nothing of either machine is left, and both say how it ended."""

    def change(capsule: dict[str, Any]) -> None:
        capsule["jobspec"]["spec"]["limits"]["grace"] = 1

    job = make_job(DEAF, change=change, machines=2)
    runners = [job.start(TUNEPLANE_MACHINE_RANK=str(rank)) for rank in range(2)]
    for rank in range(2):
        wait_until((job.out / f"up.{rank}").exists)
    for runner in runners:
        runner.send_signal(signal.SIGTERM)
    for rank, runner in enumerate(runners):
        runner.communicate(timeout=60)
        assert runner.returncode == 137
        outcome = job.outcome("outcome.json" if rank == 0 else "outcome.1.json")
        assert (outcome["result"], outcome["signal"], outcome["machine_rank"]) == ("cancelled", 9, rank)
        child = (job.out / f"child.{rank}").read_text().strip()
        wait_until(lambda child=child: not Path("/proc", child).exists())
    console.assert_no_gaps()
