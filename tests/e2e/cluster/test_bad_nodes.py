"""Nodes that are not as they should be: what they are told, and that nothing is placed there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import wait_until
from tests.services.cluster import PORT, Cluster, Node, start_cluster
from tests.services.cluster_network import Network

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
GOOD, ODD = "good", "odd"


@pytest.fixture(scope="module")
def pair(cluster_network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A console with one sound node, and a machine for a second one."""
    made = start_cluster(cluster_network, tmp_path_factory.mktemp("pair"), GOOD)
    made.node(ODD)
    yield made
    made.close()


@pytest.fixture
def odd(pair: Cluster) -> Iterator[Node]:
    """The second node, not started, with settings and mounts as they should be; they are again afterwards."""
    node = pair.nodes[ODD]
    settings = node.settings
    yield node
    node.power_off()
    node.settings = settings
    while pair.storage.as_posix() in node.machine.run("cat", "/proc/self/mountinfo"):
        node.machine.run("umount", "-l", pair.storage)
    node.machine.run("mount", "--bind", pair.storage, pair.storage)


def refused(cluster: Cluster, node: Node, code: str) -> dict[str, Any]:
    """The node as the console has it, once it is refused for that; the sound one is untouched by it."""

    def seen() -> dict[str, Any] | None:
        assert node.running, node.said()
        found = cluster.listed().get(node.name)
        return found if found and found["problem"] and found["problem"]["code"] == code else None

    told: dict[str, Any] = wait_until(f"{node.name} is refused for {code}", seen)
    assert told["health"] == "refused"
    assert told["problem"]["hint"]
    assert cluster.listed()[GOOD]["health"] == "ready"
    return told


def test_another_directory_under_the_same_path_is_refused_with_both_sides_named(
    pair: Cluster, odd: Node, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    odd.machine.run("mount", "--bind", tmp_path / "other", pair.storage)
    odd.spawn()
    told = refused(pair, odd, "storage-other")
    assert str(pair.storage) in told["problem"]["text"]
    assert ODD in told["problem"]["text"]
    odd.machine.run("umount", pair.storage)
    odd.stop()
    odd.spawn()
    pair.wait_ready(ODD)  # mended; without a start of its daemon the console finds that out within a minute


def test_a_read_only_storage_root_is_refused(pair: Cluster, odd: Node) -> None:
    odd.machine.run("mount", "-o", "remount,bind,ro", pair.storage)
    odd.spawn()
    told = refused(pair, odd, "storage-read-only")
    assert ODD in told["problem"]["text"]


def test_a_storage_root_that_is_not_there_is_told_by_the_node(pair: Cluster, odd: Node) -> None:
    odd.machine.run("mount", "-t", "tmpfs", "tmpfs", pair.storage.parent)
    odd.spawn()
    try:
        wait_until("the node says so", lambda: not odd.running or "storage-missing" in told_codes(pair, odd))
        assert str(pair.storage) in (odd.said() if not odd.running else str(pair.listed()[ODD]))
        assert pair.listed()[GOOD]["health"] == "ready"
    finally:
        odd.power_off()
        odd.machine.run("umount", "-l", pair.storage.parent)


def told_codes(cluster: Cluster, node: Node) -> set[str]:
    found = cluster.listed().get(node.name)
    if found is None:
        return set()
    return {item["code"] for item in (*found["findings"], *filter(None, [found["problem"]]))}


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"TUNEPLANE_AGENT_TOKEN": ""}, "agent-token-missing"),
        ({"TUNEPLANE_AGENT_TOKEN": "two\nlines-of-a-token-that-is-long"}, "agent-token-invalid"),
        ({"TUNEPLANE_AGENT_TOKEN": "too-short"}, "agent-token-invalid"),
        ({"TUNEPLANE_STORAGE_ROOT": ""}, "setting-missing"),
        ({"TUNEPLANE_NODE_PORT": "no-port"}, "setting-invalid"),
        ({"TUNEPLANE_NODE_TLS_CERT": "/nowhere.pem", "TUNEPLANE_NODE_TLS_KEY": "/nowhere.key"}, "tls-files"),
    ],
    ids=["no-token", "newline", "short", "no-root", "port", "certificate"],
)
def test_a_daemon_that_is_set_up_wrong_refuses_to_start(odd: Node, settings: dict[str, str], code: str) -> None:
    odd.settings = {**odd.settings, **settings}
    odd.spawn()
    assert odd.ended() != 0
    said = odd.said()
    assert f"[{code}]" in said or f'"{code}"' in said, said
    assert "Traceback" not in said
    for value in settings.values():
        assert not value or "token" not in value or value not in said, "a token was printed"


def test_a_second_daemon_on_one_machine_says_what_is_in_its_way(pair: Cluster) -> None:
    good = pair.nodes[GOOD]
    second = Node(good.machine, good.folder.with_name("second"), {**good.settings, "TUNEPLANE_NODE_NAME": "second"})
    second.spawn()
    assert second.ended() != 0
    assert "port-taken" in second.said()
    assert str(PORT) in second.said()
    third = Node(good.machine, good.folder.with_name("third"), {**good.settings, "TUNEPLANE_NODE_PORT": "8700"})
    third.settings = {**third.settings, "TUNEPLANE_NODE_STATE": str(good.state)}
    third.spawn()
    assert third.ended() != 0
    assert "daemon-running" in third.said()
    assert str(good.identity.pid) in third.said()
    assert pair.listed()[GOOD]["health"] == "ready"


def test_a_second_machine_of_the_same_name_is_refused_while_the_first_is_heard_of(pair: Cluster, odd: Node) -> None:
    odd.settings = {**odd.settings, "TUNEPLANE_NODE_NAME": GOOD}
    before = pair.listed()[GOOD]
    odd.spawn()
    wait_until("the second is told", lambda: "node-name-taken" in odd.said())
    assert pair.nodes[GOOD].machine.address in odd.said()
    after = pair.listed()[GOOD]
    assert (after["node_id"], after["health"]) == (before["node_id"], "ready")


def test_a_wrong_token_lets_nobody_in(pair: Cluster, odd: Node) -> None:
    odd.settings = {
        **odd.settings,
        "TUNEPLANE_AGENT_TOKEN": "not-the-token-of-this-cluster",
        "TUNEPLANE_NODE_NAME": "stranger",
    }
    odd.spawn()
    wait_until(
        "the node says that its token is not accepted",
        lambda: "token-invalid" in odd.said(),
    )
    assert "stranger" not in pair.listed()
    assert "not-the-token-of-this-cluster" not in odd.said() + pair.console.log()


@pytest.mark.parametrize("side", ["console", "node"])
def test_https_for_http_is_said_so(pair: Cluster, odd: Node, side: str) -> None:
    if side == "console":
        odd.settings = {**odd.settings, "TUNEPLANE_CONSOLE_URL": pair.console.url.replace("http:", "https:")}
        odd.spawn()
        wait_until("the node says so", lambda: "console-tls" in odd.said())
        assert odd.running
        return
    address = f"https://{odd.machine.address}:{PORT}"
    odd.settings = {**odd.settings, "TUNEPLANE_NODE_ADDRESS": address}
    odd.spawn()

    def problem() -> Any:
        found = pair.listed().get(ODD)
        return found and found["problem"] and found["problem"]["code"] == "node-tls" and found["problem"]

    told = wait_until("the console says so", problem)
    assert address in told["text"]


def test_a_machine_that_was_renamed_is_refused_while_it_is_heard_of_by_its_first_name(pair: Cluster, odd: Node) -> None:
    odd.spawn()
    wait_until("it has joined", lambda: (pair.listed().get(ODD) or {}).get("health") == "ready")
    odd.power_off()
    odd.settings = {**odd.settings, "TUNEPLANE_NODE_NAME": "renamed"}
    odd.spawn()
    wait_until("it is told", lambda: "node-renamed" in odd.said())
    assert "renamed" not in pair.listed()
