"""The client against real Slurm: each data version that the two can offer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from tests.services.plugin import slurm_or_skip
from tests.services.slurm import SlurmCluster
from tuneplane_server.executors.slurm.rest.client import SlurmClient
from tuneplane_server.executors.slurm.rest.models import Component, SlurmError, SlurmJob, SlurmVersionError, Submission

SECONDS = 60.0
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "TOLD": "a=b c"}
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}
NEWEST = [("22.05", "v0.0.38"), ("24.11", "v0.0.42")]
ALL = [*NEWEST, ("24.11", "v0.0.40"), ("24.11", "v0.0.41")]

type Real = tuple[SlurmClient, SlurmCluster]


@pytest.fixture(params=NEWEST, ids=lambda pair: pair[1])
async def client(request: pytest.FixtureRequest, slurm_clusters: Callable[[str], SlurmCluster]) -> AsyncIterator[Real]:
    async with _client(*request.param, slurm_clusters) as made:
        yield made


@pytest.fixture(params=ALL, ids=lambda pair: pair[1])
async def any_client(
    request: pytest.FixtureRequest, slurm_clusters: Callable[[str], SlurmCluster]
) -> AsyncIterator[Real]:
    """Also the older data versions of 24.11, which 23.11 and 24.05 have for their newest."""
    async with _client(*request.param, slurm_clusters) as made:
        yield made


@asynccontextmanager
async def _client(version: str, api: str, clusters: Callable[[str], SlurmCluster]) -> AsyncIterator[Real]:
    cluster = clusters(version)
    client = SlurmClient(cluster.url, cluster.user, cluster.token_file, known=[api])
    try:
        yield client, cluster
    finally:
        await client.close()
        cluster.cancel_all()


def job(
    cluster: SlurmCluster, script: str, *components: Component, name: str = "tp-a-1-0", **more: object
) -> Submission:
    given = {
        "name": name,
        "comment": "tuneplane a 1",
        "script": f"#!/bin/sh\n{script}\n",
        "components": components or (Component(1, 1, "h200"),),
        "environment": ENVIRONMENT,
        "directory": str(cluster.folder),
        "output": str(cluster.folder / "%j.out"),
        "time_limit_minutes": 5,
    }
    return Submission(**given | more)  # ty: ignore[invalid-argument-type]


async def until(client: SlurmClient, job_id: int, holds: Callable[[list[SlurmJob]], bool]) -> list[SlurmJob]:
    """The job's components once all is as it should be."""
    async with asyncio.timeout(SECONDS):
        while not holds(found := await client.job(job_id)):  # noqa: ASYNC110 - Slurm tells nobody
            await asyncio.sleep(0.2)
    return found


def over(found: list[SlurmJob]) -> bool:
    return bool(found) and all(each.states & ENDED and "COMPLETING" not in each.states for each in found)


def runs(found: list[SlurmJob]) -> bool:
    return bool(found) and all("RUNNING" in each.states for each in found)


async def test_health_nodes_and_partitions_are_told(any_client: Real) -> None:
    slurm, cluster = any_client
    health = await slurm.health()
    assert health.version.startswith(cluster.version)
    assert health.controllers_up
    assert health.token_expires_at is not None
    assert health.token_issued_at is not None
    assert health.token_expires_at - health.token_issued_at == timedelta(days=1)

    nodes = {node.name: node for node in await slurm.nodes()}
    assert sorted(nodes) == ["n1", "n2", "n3", "n4"]
    assert nodes["n1"].gpus == {"h200": 8}
    assert (nodes["n1"].cpus, nodes["n1"].memory_mb, nodes["n1"].architecture) == (16, 64000, "x86_64")
    assert nodes["n1"].gpus_used is not None

    partitions = {each.name: each for each in await slurm.partitions()}
    assert partitions["main"].nodes == ("n1", "n2", "n3", "n4")
    assert (partitions["main"].max_minutes, partitions["main"].default_minutes) == (60, 10)
    assert (partitions["small"].max_minutes, partitions["small"].max_nodes) == (5, 1)
    assert partitions["main"].max_nodes is None
    assert partitions["main"].states == {"UP"}


async def test_a_job_is_all_that_was_asked_for(any_client: Real) -> None:
    slurm, cluster = any_client
    before = datetime.now(UTC) - timedelta(seconds=2)
    asked = job(
        cluster,
        'env >"$SLURM_JOB_ID.part"; mv "$SLURM_JOB_ID.part" "$SLURM_JOB_ID.env"; srun sleep 60',
        Component(2, 4, "h200", cpus=3, memory_mb=2000, partition="main"),
        nice=3,
        warning=("USR1", 60),
    )
    job_id = await slurm.submit(asked)
    (seen,) = await until(slurm, job_id, runs)
    assert (seen.id, seen.leader_id, seen.het_id) == (job_id, job_id, None)
    assert (seen.name, seen.comment, seen.user) == ("tp-a-1-0", "tuneplane a 1", cluster.user)
    assert seen.submitted_at is not None
    assert seen.submitted_at >= before
    assert seen.started_at is not None
    assert (seen.estimated_start, seen.ended_at, seen.exit_code) == (None, None, None)
    assert len(seen.nodes) == 2
    assert (seen.gpus_allocated, seen.gpus_asked, seen.nodes_asked) == (8, 8, 2)
    assert (seen.partition, seen.time_limit_minutes, seen.directory) == ("main", 5, str(cluster.folder))
    assert (seen.restarts, seen.source) == (0, "controller")
    assert [each.id for each in await slurm.jobs(name="tp-a-1-0") if "RUNNING" in each.states] == [job_id]
    assert sum(node.gpus_used or 0 for node in await slurm.nodes() if node.name in seen.nodes) >= 8

    told = f"{cluster.folder}/{job_id}.env"
    await asyncio.to_thread(cluster.wait, "it runs", lambda: cluster.run("ls", told, check=False))
    lines = cluster.run("cat", told).splitlines()
    assert "TOLD=a=b c" in lines
    assert not [line for line in lines if line.startswith("HOME=")]
    shown = cluster.run("scontrol", "show", "job", str(job_id))
    assert "Nice=3" in shown
    assert "Requeue=0" in shown
    assert "NumCPUs=6" in shown
    assert "MinMemoryNode=2000M" in shown
    await slurm.cancel(job_id)
    (end,) = await until(slurm, job_id, over)
    assert "CANCELLED" in end.states
    assert end.ended_at is not None
    await slurm.cancel(job_id)  # one that has ended is fine


@pytest.mark.parametrize(
    ("script", "code", "signal"), [("exit 0", 0, None), ("exit 7", 7, None), ("kill -9 $$", None, 9)]
)
async def test_an_end_says_how(client: Real, script: str, code: int | None, signal: int | None) -> None:
    slurm, cluster = client
    job_id = await slurm.submit(job(cluster, script))
    (end,) = await until(slurm, job_id, over)
    assert (end.exit_code, end.signal) == (code, signal)
    assert end.states == {"COMPLETED" if code == 0 else "FAILED"}


async def test_components_are_one_job(any_client: Real) -> None:
    slurm, cluster = any_client
    asked = job(cluster, "srun --het-group=0,1 sleep 60", Component(1, 2, "h200"), Component(2, 4, "h200", cpus=2))
    leader = await slurm.submit(asked)
    first, second = await until(slurm, leader, lambda found: len(found) == 2 and runs(found))
    assert (first.id, first.het_id, first.het_offset, len(first.nodes)) == (leader, leader, 0, 1)
    assert (second.leader_id, second.het_offset, len(second.nodes)) == (leader, 1, 2)
    assert (first.gpus_allocated, second.gpus_allocated) == (2, 8)
    assert (first.comment, second.comment) == ("tuneplane a 1", "tuneplane a 1")
    await slurm.cancel(leader)
    ended = await until(slurm, leader, over)
    assert [each.het_offset for each in ended] == [0, 1]


async def test_a_job_that_waits_says_why_and_when_and_is_ended(client: Real) -> None:
    slurm, cluster = client
    first = await slurm.submit(job(cluster, "sleep 200", Component(4, 8, "h200")))
    await until(slurm, first, runs)
    second = await slurm.submit(job(cluster, "sleep 1", Component(4, 8, "h200")))
    waits = await until(slurm, second, lambda found: bool(found[0].estimated_start and found[0].reason == "Resources"))
    assert "PENDING" in waits[0].states
    assert (waits[0].started_at, waits[0].nodes, waits[0].gpus_allocated) == (None, (), 0)
    assert (waits[0].gpus_asked, waits[0].nodes_asked) == (32, 4)
    await slurm.cancel(second)
    (end,) = await until(slurm, second, over)
    assert (end.states, end.started_at, end.exit_code) == ({"CANCELLED"}, None, None)


async def test_a_signal_reaches_the_job_and_only_known_ones_are_sent(client: Real) -> None:
    slurm, cluster = client
    job_id = await slurm.submit(
        job(cluster, 'trap "exit 5" TERM; touch "$SLURM_JOB_ID.up"; while :; do sleep 0.2; done')
    )
    await asyncio.to_thread(
        cluster.wait, "the trap is set", lambda: cluster.run("ls", f"{cluster.folder}/{job_id}.up", check=False)
    )
    with pytest.raises(ValueError, match="FOO"):
        await slurm.signal(job_id, "FOO")  # ty: ignore[invalid-argument-type]
    await slurm.signal(job_id, "TERM")
    (end,) = await until(slurm, job_id, over)
    assert (end.exit_code, end.states) == (5, {"FAILED"})


@pytest.mark.parametrize(
    ("more", "component", "code"),
    [
        ({}, Component(1, partition="nope"), 2000),
        ({}, Component(1, 9, "h200"), 2014),
        ({}, Component(9, 1, "h200"), 2006),
        ({"time_limit_minutes": 500}, Component(1), 2051),
        ({"reservation": "nope"}, Component(1), 2053),
    ],
)
async def test_a_refusal_is_slurms_own_number_and_leaves_nothing(
    client: Real, more: dict[str, object], component: Component, code: int
) -> None:
    slurm, cluster = client
    with pytest.raises(SlurmError) as refusal:
        await slurm.submit(job(cluster, "sleep 1", component, name="tp-refused-1-0", **more))
    assert (refusal.value.kind, refusal.value.code) == ("refused", code)
    left = await slurm.jobs(name="tp-refused-1-0")
    assert [each for each in left if not each.states & {"FAILED"}] == []


async def test_one_bad_component_rejects_all(client: Real) -> None:
    slurm, cluster = client
    with pytest.raises(SlurmError) as refusal:
        await slurm.submit(job(cluster, "sleep 1", Component(1), Component(1, 9, "h200"), name="tp-het-1-0"))
    assert refusal.value.kind == "refused"
    assert [each for each in await slurm.jobs(name="tp-het-1-0") if not each.states & {"FAILED", "CANCELLED"}] == []


async def test_an_unknown_job_is_none_and_not_an_error(client: Real) -> None:
    slurm, _cluster = client
    assert await slurm.job(60_000_000) == []
    assert await slurm.accounted(name="tp-a-1-0") is None  # this cluster has no accounting


async def test_a_bad_token_is_told_as_one(client: Real) -> None:
    good, cluster = client
    api = await good.discover()
    job_id = await good.submit(job(cluster, "sleep 60"))
    bad = SlurmClient(cluster.url, cluster.user, "bad.token.here", known=[api])
    calls = (bad.health, bad.jobs, bad.nodes, bad.partitions, lambda: bad.job(job_id), lambda: bad.cancel(job_id))
    try:
        for call in calls:
            with pytest.raises(SlurmError) as refusal:
                await call()
            assert refusal.value.kind == "auth"
        with pytest.raises(SlurmError) as refusal:
            await bad.submit(job(cluster, "sleep 1", name="tp-bad-1-0"))
        # 22.05 says the same of a controller that dies while it takes the job.
        assert refusal.value.kind == ("unknown-outcome" if api == "v0.0.38" else "auth")
        assert "bad.token.here" not in str(refusal.value)
        assert await good.jobs(name="tp-bad-1-0") == []
        (seen,) = await good.job(job_id)
        assert not seen.states & ENDED
    finally:
        await bad.close()


async def test_a_token_that_was_renewed_is_read_again(client: Real) -> None:
    good, cluster = client
    tokens = iter(["old.bad.token", cluster.new_token()])
    renewed = SlurmClient(cluster.url, cluster.user, lambda: next(tokens), known=[await good.discover()])
    renewed._shape = good._shape
    try:
        assert len(await renewed.nodes()) == 4
    finally:
        await renewed.close()


async def test_only_unknown_versions_are_refused_naming_both_sides(slurm: SlurmCluster) -> None:
    client = SlurmClient(slurm.url, slurm.user, slurm.token_file, known=["v0.0.99"])
    try:
        with pytest.raises(SlurmVersionError) as refusal:
            await client.jobs()
        assert slurm.api in refusal.value.offered
        assert "v0.0.99" in str(refusal.value)
        assert slurm.api in str(refusal.value)
    finally:
        await client.close()


async def test_the_newest_version_is_taken(slurm: SlurmCluster) -> None:
    client = SlurmClient(slurm.url, slurm.user, slurm.token_file)
    try:
        assert await client.discover() == slurm.api
    finally:
        await client.close()


async def test_the_accounting_remembers_what_the_controller_forgot(slurm_accounting: SlurmCluster) -> None:
    cluster = slurm_accounting
    client = SlurmClient(cluster.url, cluster.user, cluster.token_file)
    try:
        before = datetime.now(UTC) - timedelta(seconds=5)
        leader = await client.submit(
            job(cluster, "exit 3", Component(1, 2, "h200"), Component(1, 1, "h200"), name="tp-acct-1-0")
        )
        async with asyncio.timeout(SECONDS):
            while await client.job(leader):  # noqa: ASYNC110 - Slurm tells nobody
                await asyncio.sleep(0.3)
        by_id = await client.accounted(job_id=leader)
        assert by_id is not None
        assert [each.het_offset for each in by_id] == [0, 1]
        assert [each.gpus_allocated for each in by_id] == [2, 1]
        assert {each.source for each in by_id} == {"accounting"}
        assert "FAILED" in by_id[0].states
        assert by_id[0].exit_code in (3, None)  # 22.05 does not say
        assert by_id[0].submitted_at is not None
        assert by_id[0].submitted_at >= before
        named = await client.accounted(name="tp-acct-1-0", since=before)
        assert named is not None
        assert leader in [each.id for each in named]
        assert await client.accounted(name="tp-acct-1-0", since=datetime.now(UTC) + timedelta(hours=1)) == []
        assert await client.accounted(job_id=60_000_000) == []
        assert await client.accounted(name="tp-nobody-1-0") == []
    finally:
        await client.close()


@pytest.mark.parametrize("version", ["22.05", "24.11"])
async def test_a_controller_that_is_away_says_nothing_of_jobs(pytestconfig: pytest.Config, version: str) -> None:
    with slurm_or_skip(pytestconfig, version) as cluster:
        client = SlurmClient(cluster.url, cluster.user, cluster.token_file)
        try:
            job_id = await client.submit(job(cluster, "sleep 60"))
            cluster.kill("slurmctld")
            submit = client.submit(job(cluster, "sleep 1", name="tp-away-1-0"))
            others = asyncio.gather(*(_kind(call) for call in (client.jobs(), submit, client.cancel(job_id))))
            health, kinds = await asyncio.gather(client.health(), others)
            assert not health.controllers_up
            assert kinds[0] == "unreachable"
            assert set(kinds[1:]) <= {"unreachable", "unknown-outcome"}
            cluster.stop("slurmrestd")
            assert await _kind(client.jobs()) == "unreachable"
            assert await _kind(client.submit(job(cluster, "sleep 1"))) == "unreachable"
        finally:
            await client.close()


async def _kind(call: Awaitable[object]) -> str:
    with pytest.raises(SlurmError) as problem:
        await call
    return problem.value.kind
