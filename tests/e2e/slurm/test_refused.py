"""What Slurm does not take, or not yet, is told in words that name the setting; what it has forgotten is found in its accounting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.harness import Client
from tests.e2e.slurm.consoles import slurm_client
from tests.e2e.slurm.holding import conditions, hold, slurm_jobs
from tests.services.slurm import SlurmCluster

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def client(slurm_accounting: SlurmCluster) -> Iterator[Client]:
    """Its jobs are of an account that may have four GPUs at once; those without a GPU go to a partition that is not there."""
    settings = {"TUNEPLANE_SLURM_ACCOUNT": "small", "TUNEPLANE_SLURM_PARTITION": "main,cpu=nowhere"}
    with slurm_client(slurm_accounting, None, **settings) as made:
        yield made


def test_a_run_over_the_quota_of_its_account_waits_and_says_why(client: Client, slurm_accounting: SlurmCluster) -> None:
    run = hold(client, slurm_accounting, "over", profile="h200:8")
    job = run.until("its reason is told", lambda job: "GPU" in conditions(job).get("executor-queue", ""))
    assert job["phase"] == "starting"
    client.tp("job", "cancel", run.run, "--yes")
    assert client.wait(run.run, "cancelled", 120)["cleanup"] == "confirmed"


@pytest.mark.parametrize(
    ("profile", "words"),
    [("cpu", ("nowhere", "TUNEPLANE_SLURM_PARTITION")), ("h200:9", ("9 GPUs of h200", "TUNEPLANE_SLURM_PARTITION"))],
)
def test_what_its_partition_does_not_have_is_refused_at_once(
    client: Client, profile: str, words: tuple[str, str]
) -> None:
    name = profile.replace(":", "-")
    client.new(name, "custom/custom")
    answer = client.tp("submit", name, "--profile", profile, code=3)
    assert all(word in answer.err for word in words), answer.err


def test_a_run_that_slurm_has_forgotten_ends_as_accounting_says(client: Client, slurm_accounting: SlurmCluster) -> None:
    run = hold(client, slurm_accounting, "forgotten")
    run.until_held()
    (job,) = slurm_jobs(slurm_accounting, run.run)
    client.console.kill()
    slurm_accounting.run("scancel", str(job))
    slurm_accounting.purge(job)
    client.console.start()
    shown = client.wait(run.run, "failed", 120)
    assert (shown["reason"]["code"], shown["cleanup"]) == ("slurm-cancelled", "confirmed")
