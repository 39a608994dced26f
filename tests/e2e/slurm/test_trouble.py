"""What happens to a cluster while jobs run: whatever Slurm cannot say changes no run, and what it does say is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.harness import Client
from tests.e2e.slurm.consoles import slurm_client
from tests.e2e.slurm.holding import SECONDS, conditions, hold, slurm_jobs
from tests.e2e.trainers import said
from tests.services.plugin import slurm_or_skip
from tests.services.slurm import VERSIONS, SlurmCluster

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=VERSIONS)
def cluster(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    """Of this module's own: it is broken and mended here."""
    with slurm_or_skip(pytestconfig, request.param) as made:
        yield made


@pytest.fixture(scope="module")
def client(cluster: SlurmCluster) -> Iterator[Client]:
    cluster.write_token(cluster.home / "short-lived")
    with slurm_client(cluster, TUNEPLANE_SLURM_TOKEN_FILE=str(cluster.home / "short-lived")) as made:
        yield made


def test_a_cancelled_run_may_save_what_it_has(client: Client, cluster: SlurmCluster) -> None:
    run = hold(client, cluster, "cancelled")
    run.until_held()
    client.tp("job", "cancel", run.run, "--yes")
    job = client.wait(run.run, "cancelled", SECONDS)
    assert said(client, run.run)[-1] == "saved 1"
    assert job["cleanup"] == "confirmed"


def test_a_controller_that_is_away_changes_no_run(client: Client, cluster: SlurmCluster) -> None:
    run = hold(client, cluster, "away")
    run.until_held()
    cluster.stop("slurmctld")  # it writes its state down; killed, it could give the number of this job away once more
    try:
        job = run.until("the console cannot see it", lambda job: "unreachable" in conditions(job))
        assert (job["phase"], job["attempt"]) == ("running", 1)
        run.go()
        run.until("its end is printed", lambda _job: "step 2" in client.printed(run.run))
        assert run.shown()["phase"] in ("running", "finishing")
    finally:
        cluster.start("slurmctld")
    assert len(run.finished()["attempts"]) == 1


def test_a_token_that_runs_out_is_told_and_its_successor_is_taken(client: Client, cluster: SlurmCluster) -> None:
    run = hold(client, cluster, "token")
    run.until_held()
    token = cluster.home / "short-lived"
    cluster.write_token(token, lifespan=1)
    try:
        job = run.until("the console cannot see it", lambda job: "unreachable" in conditions(job))
        assert job["phase"] == "running"
    finally:
        cluster.write_token(token)
    run.until("the console sees it again", lambda job: "unreachable" not in conditions(job))
    assert len(run.finished()["attempts"]) == 1


def test_a_console_that_was_killed_finds_its_run_again(client: Client, cluster: SlurmCluster) -> None:
    run = hold(client, cluster, "adopted")
    run.until_held()
    client.console.kill()
    run.go()
    client.console.start()
    job = run.finished()
    assert (len(job["attempts"]), job["cleanup"]) == (1, "confirmed")
    assert len(slurm_jobs(cluster, run.run)) == 1


def test_a_run_whose_node_is_lost_is_tried_again_on_another(client: Client, cluster: SlurmCluster) -> None:
    run = hold(client, cluster, "lost", "--retries", "infra=1")
    run.until_held()
    (node,) = run.until("it has a node", lambda job: job["phase"] == "running" and job["nodes"])["nodes"]
    cluster.node_down(node)
    try:
        run.until("another attempt is made", lambda job: job["attempt"] == 2)
        job = run.finished()
    finally:
        cluster.resume(node)
    first, second = job["attempts"]
    assert first["reason"]["code"] == "node-lost"
    assert second["phase"] == "succeeded"
    assert node not in job["nodes"]
