"""What Slurm is asked for: components, types of cards, partitions, QOS, limits; and what its machines are to us."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane_server.executors.slurm.memory import a_plan, settings
from tuneplane_server.domain.slurm_choices import parse_partitions, parse_qos
from tuneplane_server.executors.port import LaunchPlan, PoolPlan
from tuneplane_server.executors.slurm.cards import node_infos, profile_of
from tuneplane_server.executors.slurm.rest.models import Component, Partition, SlurmNode, Submission
from tuneplane_server.executors.slurm.rules import SlurmRules
from tuneplane_server.executors.slurm.submitting import BASE_ENVIRONMENT, Cluster, pools_of, submission_of

UP = frozenset({"UP"})


def a_node(name: str, gpus: dict[str, int], partition: str = "main", **values: Any) -> SlurmNode:
    given: dict[str, Any] = {"cpus": 64, "memory_mb": 512_000, "states": frozenset({"IDLE"}), "gpus_used": 0}
    return SlurmNode(name, "10.0.0.1", gpus=gpus, partitions=(partition,), **{**given, **values})


CLUSTER = Cluster(
    (
        a_node("g1", {"nvidia_h200": 8}),
        a_node("g2", {"nvidia_h200": 8}),
        a_node("c1", {}, "cpu"),
        a_node("a1", {"a100": 4}, "old"),
    ),
    (
        Partition("main", UP, max_minutes=600, default_minutes=10, default=True),
        Partition("cpu", UP),
        Partition("old", UP),
    ),
)


def rules(root: Path = Path("/root-of-storage"), **values: Any) -> SlurmRules:
    own = {name: values.pop(name) for name in ("gpu_profile", "simulated") if name in values}
    return SlurmRules(settings(**values), root, **own)


def asked(plan: LaunchPlan, cluster: Cluster = CLUSTER, **values: Any) -> Submission:
    return submission_of(plan, "#!/bin/sh\n", "/d", cluster, rules(**values))


def test_pools_are_components_in_order(tmp_path: Path) -> None:
    pools = (
        PoolPlan("train", "h200", 2, 8, 32, 400),
        PoolPlan("rollout", "a100", 1, 2),
        PoolPlan("data", "cpu", 1, 0, 3.5, 0.5),
    )
    job = asked(a_plan(tmp_path, pools=pools), partitions=parse_partitions("cpu=cpu,a100=old,main"))
    assert job.components == (
        Component(2, 8, "nvidia_h200", 32, 409_600, "main"),
        Component(1, 2, "a100", 32, None, "old"),
        Component(1, 0, None, 4, 512, "cpu"),
    )


@pytest.mark.parametrize(
    ("gpus", "kind"),
    [
        ({"h200": 8}, "h200"),
        ({"": 8}, None),
        ({"nvidia_h200": 8}, "nvidia_h200"),
        ({"h200": 4, "nvidia_h200": 4}, None),
        ({}, "h200"),
    ],
)
def test_what_slurm_calls_the_cards_of_a_profile(tmp_path: Path, gpus: dict[str, int], kind: str | None) -> None:
    cluster = Cluster((a_node("g1", gpus),), CLUSTER.partitions)
    job = asked(a_plan(tmp_path), cluster, gpu_profile="h200")
    assert job.components[0].gpu_type == kind


def test_cpus_that_nobody_asked_for_are_a_share_of_the_machine_s(tmp_path: Path) -> None:
    job = asked(a_plan(tmp_path, pools=(PoolPlan("main", "h200", 1, 2),)))
    assert job.components[0].cpus == 16
    job = asked(a_plan(tmp_path, pools=(PoolPlan("main", "cpu", 1, 0),)))
    assert job.components[0].cpus is None


def test_a_plan_without_pools_asks_for_its_machines(tmp_path: Path) -> None:
    plan = replace(a_plan(tmp_path), pools=())
    assert pools_of(plan) == (PoolPlan("machine-0", "cpu", 1, 8),)


def test_account_qos_reservation_and_nice(tmp_path: Path) -> None:
    chosen: dict[str, Any] = {"account": "lab", "qos": parse_qos("0=normal,50=high"), "reservation": "night"}
    job = asked(a_plan(tmp_path, priority=60), **chosen)
    assert (job.account, job.qos, job.reservation, job.nice) == ("lab", "high", "night", None)
    job = asked(a_plan(tmp_path, priority=-30), **chosen)
    assert (job.qos, job.nice) == (None, 30)


@pytest.mark.parametrize(
    ("seconds", "own", "minutes", "warning"),
    [
        (3600, None, 63, ("TERM", 60)),  # with room for our own limit and the grace
        (36_000, None, 600, ("TERM", 60)),  # as much as the partition allows
        (35_990, None, 600, ("TERM", 60)),
        (72_000, None, 1203, ("TERM", 60)),  # Slurm is to say no, not to cut it short
        (None, 240, 240, ("TERM", 60)),
        (None, None, None, ("TERM", 60)),  # the partition's default of 10 minutes
        (None, 1, 1, None),  # it would come at once
    ],
)
def test_the_time_limit(
    tmp_path: Path, seconds: int | None, own: int | None, minutes: int | None, warning: Any
) -> None:
    job = asked(a_plan(tmp_path, max_seconds=seconds, grace=timedelta(seconds=60)), time_limit_minutes=own)
    assert (job.time_limit_minutes, job.warning) == (minutes, warning)


def test_the_environment_is_what_is_sent(tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    assert asked(plan).environment == BASE_ENVIRONMENT | dict(plan.env)


# --- machines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "profile"),
    [("h200", "h200"), ("nvidia_h200", "h200"), ("nvidia_a100_80gb_pcie", "a100"), ("", "gpu"), ("gpu", "gpu")],
)
def test_what_we_call_slurm_s_cards(kind: str, profile: str) -> None:
    assert profile_of(kind, rules()) == profile


def test_cards_without_a_name_are_what_the_setting_says() -> None:
    assert profile_of("", rules(gpu_profile="b300")) == "b300"


def test_only_machines_of_our_partitions_are_there() -> None:
    infos = node_infos(CLUSTER.nodes, CLUSTER.partitions, rules())
    assert [info.name for info in infos] == ["g1", "g2"]
    infos = node_infos(CLUSTER.nodes, CLUSTER.partitions, rules(partitions=parse_partitions("cpu=cpu,a100=old")))
    assert [info.name for info in infos] == ["g1", "g2", "c1", "a1"]


def test_where_no_partition_is_said_to_be_the_default_any_may_be() -> None:
    partitions = tuple(replace(item, default=False) for item in CLUSTER.partitions)
    assert [info.name for info in node_infos(CLUSTER.nodes, partitions, rules())] == ["g1", "g2", "c1", "a1"]


def test_invented_cards_are_marked() -> None:
    (info,) = node_infos((a_node("g1", {"h200": 2}, architecture="x86_64"),), CLUSTER.partitions, rules(simulated=True))
    assert [(gpu.simulated, gpu.product) for gpu in info.gpus] == [(True, "simulated h200")] * 2
    assert info.facts["architecture"] == "x86_64"


@pytest.mark.parametrize(
    ("states", "why"),
    [
        ({"IDLE"}, ""),
        ({"MIXED"}, ""),
        ({"ALLOCATED", "COMPLETING"}, ""),
        ({"IDLE", "CLOUD", "POWERED_DOWN"}, ""),  # Slurm starts it when it is wanted
        ({"IDLE", "DRAIN"}, "drained in Slurm (DRAIN: tests)"),
        ({"DOWN", "NOT_RESPONDING"}, "does not answer Slurm (DOWN+NOT_RESPONDING: tests)"),
        ({"IDLE", "MAINTENANCE"}, "under maintenance in Slurm (MAINTENANCE: tests)"),
        ({"DOWN"}, "out of use in Slurm (DOWN: tests)"),
    ],
)
def test_a_machine_that_takes_no_work_says_why(states: set[str], why: str) -> None:
    (info,) = node_infos((a_node("g1", {}, states=frozenset(states), reason="tests"),), CLUSTER.partitions, rules())
    assert (info.placeable, info.why) == (not why, why)


def test_a_partition_that_is_down_takes_no_work() -> None:
    down = (Partition("main", frozenset({"DOWN"}), default=True), Partition("cpu", UP))
    (info,) = node_infos((a_node("g1", {}),), down, rules())
    assert info.why == "its partition main is down"
