"""Who joins under which name, and what it is told."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event

from tests.tuneplane_server.harness import Harness, gpu_pool, jobspec
from tests.tuneplane_server.nodes.build import announcement, finding, inventory, ready
from tuneplane_server.domain.nodes import STARTED_AGAIN_AFTER, UNHEARD_AFTER, NodeHealth, NodeState
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.audit.budget import AT_MOST
from tuneplane_server.features.nodes.known import LOOK_EVERY
from tuneplane_server.features.nodes.node import NodeProblem
from tuneplane_server.features.nodes.service import NodesService
from tuneplane_server.web.problems import ProblemError

SILENCE = UNHEARD_AFTER.total_seconds()


@pytest.fixture
def nodes(harness: Harness) -> NodesService:
    return harness.services.nodes


async def actions(harness: Harness, target: str = "gpu-1") -> list[str]:
    rows = await harness.services.audit.newest(target=target)
    return [row.action for row in reversed(rows)]


async def test_a_node_joins_with_what_it_has_and_is_not_used_before_its_storage_is_proved(
    harness: Harness, nodes: NodesService
) -> None:
    answer = await nodes.announce(announcement(findings=(finding(),)), "10.0.0.1")
    assert (answer.node, answer.state, answer.problem, answer.every_seconds) == ("gpu-1", "ready", None, 10.0)
    (node,) = await nodes.list()
    assert (node.health, node.state, node.placeable) == (NodeHealth.UNPROVED, NodeState.READY, False)
    assert node.inventory == inventory()
    assert [found.code for found in node.findings] == ["gpu-query-failed"]
    assert (node.address, node.runtime, node.storage_root) == ("http://gpu-1:8643", "docker", "/data/tuneplane")
    await nodes.proved("gpu-1", node.daemon_start, None)
    (node,) = await nodes.list()
    assert (node.health, node.placeable) == (NodeHealth.READY, True)
    assert await actions(harness) == ["node.join", "node.prove"]


async def test_a_daemon_that_was_started_anew_proves_its_storage_anew(nodes: NodesService) -> None:
    await ready(nodes)
    await nodes.announce(announcement(started_at=2000.0), "10.0.0.1")
    node = await nodes.get("gpu-1")
    assert node is not None
    assert (node.health, node.asked_at) == (NodeHealth.UNPROVED, None)


async def test_an_announcement_of_nothing_new_writes_nothing(harness: Harness, nodes: NodesService) -> None:
    await ready(nodes)
    await nodes.announce(announcement(), "10.0.0.1")
    written: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if not statement.lstrip().lower().startswith(("select", "begin", "pragma")):
            written.append(statement)

    engine = harness.services.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    for second in range(5):
        harness.time.pass_(1)
        volatile = inventory(memory_available_bytes=second, disk_free_bytes=second)
        await nodes.announce(announcement(time=float(second), inventory=volatile), "10.0.0.1")
    assert written == []
    node = await nodes.get("gpu-1")
    assert node is not None
    assert node.inventory.disk_free_bytes == 4  # and is known all the same


async def test_when_it_was_heard_of_is_written_now_and_then_and_survives_a_restart(
    harness: Harness, nodes: NodesService
) -> None:
    await ready(nodes)
    for _second in range(12):
        harness.time.pass_(1)
        await nodes.announce(announcement(), "10.0.0.1")
    told = nodes.heard("gpu-1")
    assert told is not None
    await harness.restart()
    (node,) = await harness.services.nodes.list()
    assert (told - node.last_heard).total_seconds() < 10
    assert node.health is NodeHealth.READY
    harness.time.pass_(SILENCE)
    (node,) = await harness.services.nodes.list()
    assert node.health is NodeHealth.UNREACHABLE
    assert node.problem is not None
    assert node.problem.code == "node-unreachable"


async def test_what_another_console_hears_and_decides_is_known_here(harness: Harness, nodes: NodesService) -> None:
    await ready(nodes)
    other = harness.replica()
    try:
        harness.time.pass_(SILENCE)
        await other.services.nodes.announce(announcement(), "10.0.0.1")
        await other.services.nodes.cordon("gpu-1", "root")
        harness.time.pass_(2)
        (node,) = await nodes.list()
        assert (node.health, node.state) == (NodeHealth.READY, NodeState.CORDONED)
        assert (await nodes.announce(announcement(), "10.0.0.1")).state == "cordoned"
    finally:
        await other.services.database.close()


async def test_a_clock_that_is_set_back_hides_nothing_that_another_console_changes(
    harness: Harness, nodes: NodesService
) -> None:
    await ready(nodes)
    other = harness.replica()
    try:
        await other.services.nodes.cordon("gpu-1", "root")
        harness.time.pass_(-3600)
        assert [node.state for node in await nodes.list()] == [NodeState.CORDONED]
    finally:
        await other.services.database.close()


@pytest.mark.parametrize(
    ("version", "fits"), [("0.0.9", True), ("0.2.0", True), ("0.3.0", False), ("1.1.0", False), ("soon", False)]
)
async def test_one_minor_version_apart_is_near_enough(
    nodes: NodesService, version: str, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuneplane_server.features.nodes.building.VERSION", "0.1.7")
    answer = await nodes.announce(announcement(version=version), "10.0.0.1")
    (node,) = await nodes.list()
    if fits:
        assert (answer.state, node.health) == ("ready", NodeHealth.UNPROVED)
        return
    assert answer.problem is not None
    assert (answer.state, answer.problem.code, node.health) == ("refused", "node-version", NodeHealth.REFUSED)
    assert version in answer.problem.text
    assert "0.1.7" in answer.problem.text


async def test_a_node_that_knows_no_api_of_ours_is_refused(nodes: NodesService) -> None:
    assert (await nodes.announce(announcement(api=(7,)), "10.0.0.1")).state == "refused"


async def test_a_name_belongs_to_the_machine_that_is_heard_of(harness: Harness, nodes: NodesService) -> None:
    await ready(nodes)
    second = announcement(node_id="id-other", address="http://10.0.0.9:8643")
    answer = await nodes.announce(second, "10.0.0.9")
    assert answer.state == "refused"
    assert answer.problem is not None
    assert answer.problem.code == "node-name-taken"
    for named in ("id-other", "http://10.0.0.9:8643", "id-gpu-1", "http://gpu-1:8643"):
        assert named in answer.problem.text
    await nodes.announce(second, "10.0.0.9")
    assert [stranger.node_id for stranger in nodes.strangers()] == ["id-other"]
    (node,) = await nodes.list()
    assert (node.node_id, node.health) == ("id-gpu-1", NodeHealth.READY)
    assert (await actions(harness)).count("node.refuse") == 1  # however often it tries
    harness.time.pass_(SILENCE)
    assert nodes.strangers() == []


async def test_a_name_is_free_again_when_its_machine_is_silent_and_nothing_runs_there(
    harness: Harness, nodes: NodesService
) -> None:
    await ready(nodes)
    await nodes.cordon("gpu-1", "root")
    harness.time.pass_(SILENCE)
    answer = await nodes.announce(announcement(node_id="id-other", address="http://10.0.0.9:8643"), "10.0.0.9")
    assert answer.state == "ready"
    (node,) = await nodes.list()
    assert (node.node_id, node.address, node.health) == ("id-other", "http://10.0.0.9:8643", NodeHealth.UNPROVED)
    assert "node.replace" in await actions(harness)


async def test_a_name_stays_taken_while_a_run_is_said_to_be_there(
    harness: Harness, ada: Principal, nodes: NodesService
) -> None:
    await ready(nodes, "node")  # as the scripted executor calls its machine
    await harness.running_job(ada, jobspec(resources=gpu_pool(1)))
    harness.time.pass_(SILENCE)
    answer = await nodes.announce(announcement("node", node_id="id-other"), "10.0.0.9")
    assert answer.state == "refused"
    (node,) = await nodes.list()
    assert node.node_id == "id-node"


async def test_a_machine_that_was_renamed_is_not_used_under_two_names(harness: Harness, nodes: NodesService) -> None:
    """Its cards would be there twice, and given to two runs at once."""
    harness.time.pass_(60)
    await ready(nodes)
    await nodes.fence("gpu-1", "a" * 16, 1)
    renamed = announcement("gpu-9", node_id="id-gpu-1", address="http://gpu-1:8643", started_at=3000.0)
    answer = await nodes.announce(renamed, "10.0.0.1")
    assert answer.problem is not None
    assert (answer.state, answer.problem.code) == ("refused", "node-renamed")
    assert "gpu-1" in answer.problem.text
    harness.time.pass_(SILENCE)
    assert (await nodes.announce(renamed, "10.0.0.1")).state == "ready"
    harness.time.pass_(LOOK_EVERY.total_seconds())
    before, now = await nodes.get("gpu-1"), await nodes.get("gpu-9")
    assert before is not None
    assert now is not None
    assert (before.state, before.fences) == (NodeState.REMOVED, ())
    assert [(fence.job_id, fence.attempt) for fence in now.fences] == [("a" * 16, 1)], "it still has to end that"
    assert (await nodes.announce(announcement(started_at=4000.0), "10.0.0.1")).state == "refused"
    harness.time.pass_(SILENCE)
    assert (await nodes.announce(announcement(started_at=4000.0), "10.0.0.1")).state == "ready", "it has its name back"
    harness.time.pass_(LOOK_EVERY.total_seconds())
    assert [node.name for node in await nodes.list()] == ["gpu-1"]


async def test_a_machine_is_not_renamed_while_a_run_is_said_to_be_there(
    harness: Harness, ada: Principal, nodes: NodesService
) -> None:
    harness.time.pass_(60)
    await ready(nodes, "node")  # as the scripted executor calls its machine
    await harness.running_job(ada, jobspec(resources=gpu_pool(1)))
    harness.time.pass_(SILENCE)
    answer = await nodes.announce(announcement("gpu-9", node_id="id-node"), "10.0.0.9")
    assert answer.state == "refused"
    assert [node.name for node in await nodes.list()] == ["node"]


async def test_a_new_address_is_believed_and_forgets_that_the_old_one_was_not_reached(
    harness: Harness, nodes: NodesService
) -> None:
    await ready(nodes)
    await nodes.called("gpu-1", NodeProblem("node-unreachable", {"address": "http://gpu-1:8643"}, "refused"))
    (node,) = await nodes.list()
    assert (node.health, node.problem and node.problem.detail) == (NodeHealth.UNREACHABLE, "refused")
    await nodes.announce(announcement(address="https://gpu-1:443"), "10.0.0.1")
    (node,) = await nodes.list()
    assert (node.health, node.address) == (NodeHealth.READY, "https://gpu-1:443")
    assert "node.change" in await actions(harness)


async def test_a_clock_that_was_ahead_for_a_while_keeps_no_silent_node_alive(
    harness: Harness, nodes: NodesService
) -> None:
    await ready(nodes)
    harness.time.pass_(86_400)
    await nodes.announce(announcement(), "10.0.0.1")
    harness.time.pass_(-86_400)
    await nodes.announce(announcement(), "10.0.0.1")
    harness.time.pass_(SILENCE)
    node = await nodes.get("gpu-1")
    assert node is not None
    assert node.health is NodeHealth.UNREACHABLE


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "-"},
        {"name": "a b"},
        {"name": "x" * 64},
        {"name": "../up"},
        {"node_id": ""},
        {"node_id": "x" * 65},
        {"address": ""},
        {"address": "gpu-1:8643"},
        {"address": "file:///etc"},
        {"address": "http://user:secret@gpu-1"},
        {"address": "http://gpu-1:99999"},
        {"address": "http://gpu 1"},
        {"version": "0" * 600},
        {"boot_id": "a\0b"},
        {"inventory": inventory(gpus=1025)},
        {"findings": (finding(),) * 101},
    ],
)
async def test_what_cannot_be_a_node_is_refused_and_leaves_nothing(nodes: NodesService, wrong: dict[str, Any]) -> None:
    good = announcement()
    told = announcement(**wrong) if "name" not in wrong else replace(good, hello=replace(good.hello, **wrong))
    with pytest.raises(ProblemError) as raised:
        await nodes.announce(told, "10.0.0.1")
    assert raised.value.code == "request-invalid"
    assert await nodes.list() == []


async def test_a_copy_of_a_machine_is_refused_for_as_long_as_the_first_is_heard_of(
    harness: Harness, nodes: NodesService
) -> None:
    """Two starts of one node id in turn: a disk was copied, host name and all."""
    harness.time.pass_(60)
    node = await ready(nodes)
    copy = announcement(boot_id="boot-2", started_at=3000.0, address="http://copy:8643")
    for _time in range(8):
        harness.time.pass_(10)
        answer = await nodes.announce(copy, "10.0.0.2")
        assert answer.state == "refused"
        assert answer.problem is not None
        assert answer.problem.code == "node-cloned"
        assert "http://gpu-1:8643" in answer.problem.text
        assert "http://copy:8643" in answer.problem.text
        assert (await nodes.announce(announcement(), "10.0.0.1")).state == "ready"
    (stranger,) = nodes.strangers()
    assert (stranger.address, stranger.node_id) == ("http://copy:8643", node.node_id)
    found = await nodes.get("gpu-1")
    assert found is not None
    assert (found.address, found.placeable) == ("http://gpu-1:8643", True)
    assert await actions(harness) == ["node.join", "node.prove", "node.refuse"]


async def test_a_machine_that_was_started_again_is_no_copy(harness: Harness, nodes: NodesService) -> None:
    harness.time.pass_(60)
    await ready(nodes)
    again = announcement(boot_id="boot-2", started_at=3000.0)
    harness.time.pass_(5)
    assert (await nodes.announce(again, "10.0.0.1")).state == "refused", (
        "faster than any machine starts: it may be a copy"
    )
    harness.time.pass_(STARTED_AGAIN_AFTER.total_seconds())
    assert (await nodes.announce(again, "10.0.0.1")).state == "ready"
    assert nodes.strangers() == []
    assert (await nodes.announce(announcement(), "10.0.0.2")).state == "refused", "and the first start is over"


async def test_a_console_that_has_just_begun_waits_for_the_first_machine(harness: Harness, nodes: NodesService) -> None:
    harness.time.pass_(60)
    await ready(nodes)
    harness.time.pass_(600)  # the console was away
    again = harness.replica().services.nodes
    copy = announcement(boot_id="boot-2", address="http://copy:8643")
    assert (await again.announce(copy, "10.0.0.2")).state == "refused"
    assert (await again.announce(announcement(), "10.0.0.1")).state != "refused"
    harness.time.pass_(STARTED_AGAIN_AFTER.total_seconds() - 1)
    assert (await again.announce(copy, "10.0.0.2")).state == "refused"


async def test_whoever_has_the_token_cannot_fill_the_audit_with_refusals(harness: Harness, nodes: NodesService) -> None:
    await ready(nodes)
    for number in range(AT_MOST + 20):
        await nodes.announce(announcement(node_id=f"id-{number}", address="http://other:8643"), "10.0.0.9")
    rows = await harness.services.audit.newest(target="gpu-1", limit=500)
    assert sum(row.action == "node.refuse" for row in rows) == AT_MOST
    for number in range(AT_MOST + 20):
        await nodes.announce(announcement(address=f"http://gpu-1:{8000 + number}"), "10.0.0.1")
    rows = await harness.services.audit.newest(target="gpu-1", limit=1000)
    assert sum(row.action == "node.change" for row in rows) == AT_MOST


async def test_whoever_asks_while_nodes_are_read_waits_for_that_one_read(harness: Harness, nodes: NodesService) -> None:
    await ready(nodes)
    harness.time.pass_(5)
    statements: list[str] = []
    engine = harness.services.database._reader.sync_engine

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if "FROM nodes" in statement:
            statements.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    found = await asyncio.gather(*(nodes.list() for _time in range(50)))
    event.remove(engine, "before_cursor_execute", note)
    assert len(statements) == 1
    assert all([node.name for node in listed] == ["gpu-1"] for listed in found)
