"""What no set of nodes can hold is refused at once; what does not arrive as it was sent is not started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.e2e.cluster.bench import ClusterBench
from tests.e2e.harness import wait_until
from tests.services.cluster import Node

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
OPTIONS = ("--observability", "platform")


@pytest.mark.parametrize(
    ("profile", "said"),
    [("h200:16", "3 have that"), ("h200:6", "h200"), ("h300:4", "h300")],
    ids=["more-than-there-are", "no-whole-nodes", "unknown"],
)
def test_cards_that_no_set_of_nodes_has_are_refused(bench: ClusterBench, profile: str, said: str) -> None:
    answer = bench.client.tp("submit", "work", "--profile", profile, *OPTIONS, code=3)
    assert said in answer.err


def test_a_job_waits_for_whole_gangs_and_holds_nothing_meanwhile(bench: ClusterBench) -> None:
    gate = bench.gate()
    small = bench.submit(gpus=4, STEPS="2", HOLD=str(gate))
    bench.wait(small, "running")
    large = bench.submit(nodes=3, gpus=4)
    wait_until("the console says why it waits", lambda: bench.show(large)["waiting"])
    assert bench.show(large)["phase"] == "queued"
    assert bench.held(large) == []
    gate.touch()
    bench.machines(large, 3)
    bench.wait(large, "succeeded")


def test_a_cordoned_node_gets_nothing_new_and_keeps_what_it_has(bench: ClusterBench) -> None:
    gate = bench.gate()
    run = bench.submit(STEPS="2", HOLD=str(gate))
    (place,) = bench.machines(run)
    bench.wait(run, "running")
    with cordoned(bench, place["host"]):
        others = [bench.submit(gpus=3) for _ in range(2)]
        for other in others:
            assert bench.machines(other)[0]["host"] != place["host"]
        assert bench.show(run)["phase"] == "running"
    gate.touch()
    bench.wait(run, "succeeded")
    for other in others:
        bench.wait(other, "succeeded")


def test_a_capsule_that_was_altered_on_its_way_is_not_started(bench: ClusterBench, tmp_path: Path) -> None:
    node = bench.cluster.nodes["node-a"]
    with ExitStack() as stack:
        for name in ("node-b", "node-c"):
            stack.enter_context(cordoned(bench, name))
        with cordoned(bench, "node-a"):
            run = bench.submit(STEPS="2")
            attempt = bench.out(run).parent
            alter(node, attempt, tmp_path)
        try:
            wait_until("the console says why it does not start", lambda: "launch-delayed" in bench.conditions(run))
            (told,) = [item["text"] for item in bench.show(run)["conditions"] if item["type"] == "launch-delayed"]
            assert "bootstrap.sh" in told
            assert not list(attempt.glob("out/launches*"))
        finally:
            node.machine.run("umount", "-l", attempt)
        job = bench.wait(run, "succeeded")
    assert (job["attempt"], bench.launches(run)) == (1, 1)


def test_a_node_whose_clock_is_wrong_starts_nothing_until_it_is_right(bench: ClusterBench) -> None:
    node = bench.cluster.nodes["node-a"]
    node.set_clock(3600)
    try:
        with ExitStack() as stack:
            for name in ("node-b", "node-c"):
                stack.enter_context(cordoned(bench, name))
            run = bench.submit()
            wait_until("the console says why it does not start", lambda: "launch-delayed" in bench.conditions(run))
            (told,) = [item["text"] for item in bench.show(run)["conditions"] if item["type"] == "launch-delayed"]
            assert "clock" in told
            assert node.name in told
            assert not list(bench.out(run).glob("launches*"))
            node.set_clock(0)
            bench.wait(run, "succeeded")
    finally:
        node.set_clock(0)


def alter(node: Node, attempt: Path, folder: Path) -> None:
    """On the node, and there alone, one file of the capsule is another one: it lies over what the console will write."""
    attempt.mkdir(parents=True, exist_ok=True)
    over = folder / "over"
    (over / "capsule").mkdir(parents=True)
    (over / "capsule" / "bootstrap.sh").write_text("echo something else >&2\nexit 0\n")
    (folder / "work").mkdir()
    layers = f"lowerdir={attempt},upperdir={over},workdir={folder / 'work'}"
    node.machine.run("mount", "-t", "overlay", "overlay", "-o", layers, attempt)


@contextmanager
def cordoned(bench: ClusterBench, name: str) -> Iterator[None]:
    bench.cluster.change(name, "cordon")
    try:
        yield
    finally:
        bench.cluster.change(name, "uncordon")
