"""From one box to several: `TUNEPLANE_EXECUTOR=local` becomes `agent` on the same storage root and database."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster.bench import ClusterBench, prepare
from tests.e2e.harness import wait_until
from tests.services.cluster import Cluster, start_cluster
from tests.services.cluster_network import Network

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]


@pytest.fixture
def grown(cluster_network: Network, tmp_path: Path) -> Iterator[Cluster]:
    made = start_cluster(cluster_network, tmp_path, TUNEPLANE_EXECUTOR="local", TUNEPLANE_SIMULATED_GPUS="h200:4")
    yield made
    made.close()


def kept(bench: ClusterBench, run: str) -> dict[str, Any]:
    """Everything that a person can see of a run, and its files."""
    job = bench.show(run)
    files = {
        str(path.relative_to(bench.out(run))): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(bench.out(run).rglob("*"))
        if path.is_file()
    }
    artifacts = bench.api.get(f"/jobs/{run}/artifacts")
    return {"job": job, "events": bench.events(run), "lines": bench.lines(run), "points": bench.points(run),
            "files": files, "artifacts": artifacts}  # fmt: skip


def test_jobs_curves_and_files_stay_and_a_run_lives_through_the_change(grown: Cluster, tmp_path: Path) -> None:
    bench = prepare(grown, tmp_path)
    over = bench.submit(STEPS="20")
    bench.wait(over, "succeeded")
    gate = bench.gate()
    alive = bench.submit(STEPS="20", HOLD=str(gate))
    wait_until("it has told half", lambda: bench.points(alive)[-1:] == [10])
    bench.wait(alive, "running")
    wait_until("its files are hashed", lambda: all(item["sha256"] for item in kept(bench, over)["artifacts"]["files"]))
    before = kept(bench, over)

    grown.console.stop()
    grown.console.settings = {**grown.console.settings, "TUNEPLANE_EXECUTOR": "agent"}
    grown.console.start()
    for name in ("node-a", "node-b"):
        grown.node(name).spawn()
    grown.wait_ready()

    assert kept(bench, over) == before
    assert bench.show(alive)["phase"] == "running"
    new = bench.submit(nodes=2, gpus=4)
    assert {told["host"] for told in bench.machines(new, 2)} == {"node-a", "node-b"}
    bench.wait(new, "succeeded")
    gate.touch()
    job = bench.wait(alive, "succeeded")
    assert (job["attempt"], bench.launches(alive)) == (1, 1)
    assert bench.lines(alive) == bench.points(alive) == list(range(1, 21))
    assert bench.phases(alive) == ["queued", "starting", "running", "finishing", "succeeded"]
    listed = {item["id"] for item in bench.api.items("/jobs", limit=100)}
    assert {over, alive, new} <= listed
