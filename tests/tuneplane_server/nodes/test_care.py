"""What administrators do with nodes, and what is fenced off."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.tuneplane_server.harness import Harness, gpu_pool, jobspec
from tests.tuneplane_server.nodes.build import announcement, ready
from tests.tuneplane_server.nodes.test_joining import SILENCE, actions
from tuneplane_server.domain.nodes import NodeHealth, NodeState
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.nodes.node import NodeProblem
from tuneplane_server.features.nodes.service import FORGET_REMOVED_AFTER, NodesService
from tuneplane_server.web.problems import ProblemError


@pytest.fixture
def nodes(harness: Harness) -> NodesService:
    return harness.services.nodes


async def test_cordon_drain_and_uncordon(harness: Harness, nodes: NodesService) -> None:
    await ready(nodes)
    node = await nodes.cordon("gpu-1", "root", "10.1.1.1")
    assert (node.state, node.placeable, node.state_by) == (NodeState.CORDONED, False, "root")
    assert (await nodes.drain("gpu-1", "root")).state is NodeState.DRAINING
    assert (await nodes.announce(announcement(), "10.0.0.1")).state == "draining"
    node = await nodes.uncordon("gpu-1", "root")
    assert (node.state, node.placeable) == (NodeState.READY, True)
    await nodes.uncordon("gpu-1", "root")  # says the same again: no second entry
    assert await actions(harness) == ["node.join", "node.prove", "node.cordon", "node.drain", "node.uncordon"]


async def test_a_cordon_counts_for_the_next_placement_at_once(harness: Harness, nodes: NodesService) -> None:
    await ready(nodes)
    before = await harness.services.hardware.nodes()
    harness.scripted.gpus = 3
    assert await harness.services.hardware.nodes() is before  # an inventory is kept for a while
    await nodes.cordon("gpu-1", "root")
    assert len((await harness.services.hardware.nodes())[0].gpus) == 3


@pytest.mark.parametrize("verb", ["cordon", "uncordon", "drain", "remove"])
async def test_a_node_that_nobody_knows_is_not_found(nodes: NodesService, verb: str) -> None:
    with pytest.raises(ProblemError) as raised:
        await getattr(nodes, verb)("nobody", "root")
    assert raised.value.code == "not-found"


async def test_a_removed_node_stays_away_until_it_is_taken_back(harness: Harness, nodes: NodesService) -> None:
    await ready(nodes)
    await nodes.remove("gpu-1", "root")
    answer = await nodes.announce(announcement(), "10.0.0.1")
    assert answer.state == "removed"
    assert answer.problem is not None
    assert answer.problem.code == "node-removed"
    assert [node.state for node in await nodes.list()] == [NodeState.REMOVED]  # somebody left its daemon running
    for verb in (nodes.cordon, nodes.drain):
        with pytest.raises(ProblemError) as raised:
            await verb("gpu-1", "root")
        assert raised.value.code == "conflict"
    node = await nodes.uncordon("gpu-1", "root")
    assert (node.state, node.health) == (NodeState.READY, NodeHealth.UNPROVED)
    await nodes.remove("gpu-1", "root")
    harness.time.pass_(SILENCE)
    assert await nodes.list() == []
    assert (await nodes.get("gpu-1")) is not None


async def test_a_removed_node_is_forgotten_when_it_has_been_silent_for_long(
    harness: Harness, nodes: NodesService
) -> None:
    await ready(nodes)
    await ready(nodes, "gpu-2")
    await nodes.remove("gpu-1", "root")
    await nodes.forget_removed()
    assert await nodes.get("gpu-1") is not None
    harness.time.pass_((FORGET_REMOVED_AFTER + timedelta(minutes=1)).total_seconds())
    await nodes.forget_removed()
    assert (await nodes.get("gpu-1"), nodes.heard("gpu-1")) == (None, None)
    assert await nodes.get("gpu-2") is not None


async def test_removing_a_node_names_the_runs_there_and_by_force_fences_them_off(
    harness: Harness, ada: Principal, nodes: NodesService
) -> None:
    await ready(nodes, "node")
    job_id = await harness.running_job(ada, jobspec(resources=gpu_pool(1)))
    with pytest.raises(ProblemError) as raised:
        await nodes.remove("node", "root")
    assert (raised.value.code, raised.value.more) == ("conflict", {"runs": [job_id]})
    assert job_id in str(raised.value.detail)
    node = await nodes.get("node")
    assert node is not None
    assert node.state is NodeState.READY
    node = await nodes.remove("node", "root", force=True)
    assert [(fence.job_id, fence.attempt) for fence in node.fences] == [(job_id, 1)]
    assert (await actions(harness, "node"))[-2:] == ["node.fence", "node.remove"]
    # Another machine does not take the name, and so speak for the run there, before that is settled.
    answer = await nodes.announce(announcement("node", node_id="another"), "10.0.0.9")
    assert (answer.state, answer.problem and answer.problem.code) == ("refused", "node-name-taken")


async def test_a_fence_keeps_a_node_out_of_use_until_it_is_gone(harness: Harness, nodes: NodesService) -> None:
    await ready(nodes)
    await nodes.fence("gpu-1", "a" * 16, 1)
    await nodes.fence("gpu-1", "a" * 16, 1)
    await nodes.fence("nobody", "a" * 16, 1)
    (node,) = await nodes.list()
    assert (node.health, node.placeable) == (NodeHealth.READY, False)
    assert [(fence.job_id, fence.attempt) for fence in await nodes.fences("gpu-1")] == [("a" * 16, 1)]
    harness.time.pass_(SILENCE)
    (node,) = await nodes.list()
    assert node.health is NodeHealth.LOST
    await nodes.announce(announcement(), "10.0.0.1")
    await nodes.unfence("gpu-1", "a" * 16, 1)
    await nodes.unfence("gpu-1", "a" * 16, 1)
    (node,) = await nodes.list()
    assert node.placeable
    assert (await actions(harness))[-2:] == ["node.fence", "node.unfence"]


async def test_a_fence_is_of_the_machine_and_not_of_its_name(harness: Harness, nodes: NodesService) -> None:
    await ready(nodes)
    await nodes.fence("gpu-1", "a" * 16, 1)
    harness.time.pass_(SILENCE)
    node = await ready(nodes, node_id="id-new")
    assert node.placeable
    assert [fence.node_id for fence in await nodes.fences("gpu-1")] == ["id-gpu-1"]


async def test_a_node_that_answers_is_heard_of_although_it_cannot_reach_the_console(
    harness: Harness, nodes: NodesService
) -> None:
    await ready(nodes)
    harness.time.pass_(SILENCE)
    (node,) = await nodes.list()
    assert node.health is NodeHealth.UNREACHABLE
    await nodes.called("gpu-1", None)
    (node,) = await nodes.list()
    assert node.health is NodeHealth.READY
    await nodes.called("nobody", None)


async def test_a_refused_storage_is_told_to_the_node_and_may_be_mended(harness: Harness, nodes: NodesService) -> None:
    node = await ready(nodes)
    values = {"console": "a:/x (ext4)", "node": "b:/x (nfs4)", "host": "b", "path": "/x"}
    await nodes.proved("gpu-1", node.daemon_start, NodeProblem("storage-other", values))
    answer = await nodes.announce(announcement(), "10.0.0.1")
    assert answer.problem is not None
    assert (answer.state, answer.problem.code) == ("refused", "storage-other")
    assert "a:/x (ext4)" in answer.problem.text
    assert "b:/x (nfs4)" in answer.problem.text
    assert (await nodes.counts())["refused"] == 1
    await nodes.proved("gpu-1", node.daemon_start, None)
    assert (await nodes.counts())["ready"] == 1
    assert (await actions(harness))[-2:] == ["node.refuse", "node.prove"]
