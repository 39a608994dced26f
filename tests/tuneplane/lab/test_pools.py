"""`--profile` to pools: the grammar, the shape by the machines there are, roles, and CPU pools."""

from __future__ import annotations

from typing import Any

import pytest

from tuneplane.contract.jobspec import Resources
from tuneplane.lab.pools import Pools, make_pools

HARDWARE: list[dict[str, Any]] = [
    {"name": "cpu", "gpus_per_node": 0, "cpus": 16.0, "memory_gb": 64.0},
    {"name": "h200", "gpus_per_node": 8, "cpus": 192.0, "memory_gb": 2000.0},
    {"name": "tiny", "gpus_per_node": 0, "cpus": 1.0, "memory_gb": 2.0},
]


def pools(*profiles: str, hardware: Any = HARDWARE, **given: Any) -> Pools:
    found, refusals = make_pools(profiles, hardware, **given)
    assert refusals == []
    Resources.model_validate({"pools": found.pools, "roles": found.roles})
    return found


@pytest.mark.parametrize(
    ("profile", "nodes", "gpus"),
    [("h200", 1, 1), ("h200:1", 1, 1), ("h200:8", 1, 8), ("h200:16", 2, 8), ("h200:5", 1, 5)],
)
def test_a_total_fits_one_machine_or_fills_whole_ones(profile: str, nodes: int, gpus: int) -> None:
    (pool,) = pools(profile).pools
    assert (pool["nodes"], pool["gpus_per_node"], pool["name"]) == (nodes, gpus, "main")


@pytest.mark.parametrize(
    ("profile", "code", "words"),
    [
        ("h200:0", "profile-invalid", "at least 1"),
        ("H200:4", "profile-unknown", "H200"),
        ("h200:12", "pool-impossible", "12"),
        ("h200:٤", "profile-invalid", "ASCII"),
        ("=h200", "profile-invalid", "roles"),
        ("h300", "profile-unknown", "h300"),
        ("h200:-1", "profile-invalid", "-1"),
        ("h200:1e3", "profile-invalid", "1e3"),
        ("h200:8:8", "profile-invalid", "8:8"),
        ("cpu:4", "profile-invalid", "no GPUs"),
        ("", "profile-invalid", "name"),
        ("卡:8", "profile-invalid", "卡"),
    ],
)
def test_a_profile_that_cannot_be_is_refused_with_what_to_write(profile: str, code: str, words: str) -> None:
    found, (refusal,) = make_pools([profile], HARDWARE)
    assert found == Pools()
    assert refusal.code == code
    assert words in refusal.message
    assert refusal.hint


def test_the_right_spelling_is_told_when_only_the_case_differs() -> None:
    assert "h200" in make_pools(["H200:4"], HARDWARE)[1][0].hint


def test_no_profile_is_refused_with_those_there_are() -> None:
    (refusal,) = make_pools([], HARDWARE)[1]
    assert "cpu, h200, tiny" in refusal.hint
    assert "cpu" in make_pools([], None)[1][0].hint


def test_a_cpu_pool_says_what_it_takes_of_the_machine() -> None:
    (pool,) = pools("cpu").pools
    assert (pool["gpus_per_node"], pool["cpus"], pool["memory_gb"]) == (0, 1, 4.0)
    (pool,) = pools("cpu", cpus=6, memory_gb=9.5).pools
    assert (pool["cpus"], pool["memory_gb"]) == (6, 9.5)


def test_a_machine_smaller_than_the_default_share_gives_what_it_has() -> None:
    (pool,) = pools("cpu", hardware=[{"name": "cpu", "gpus_per_node": 0, "cpus": 0.5, "memory_gb": 1.5}]).pools
    assert (pool["cpus"], pool["memory_gb"]) == (1, 1.5)


def test_roles_name_their_pools() -> None:
    found = pools("train=h200:8", "rollout,judge=h200:16")
    assert [pool["name"] for pool in found.pools] == ["train", "rollout"]
    assert found.roles == {"train": "train", "rollout": "rollout", "judge": "rollout"}
    assert pools("train,rollout=h200:8").roles == {"train": "main", "rollout": "main"}


@pytest.mark.parametrize("profiles", [("h200:8", "h200:8"), ("train=h200:8", "h200"), ("train=h200", "train=h200:8")])
def test_several_pools_need_roles_each_once(profiles: tuple[str, ...]) -> None:
    refusals = make_pools(profiles, HARDWARE)[1]
    assert [refusal.code for refusal in refusals] == ["roles-invalid"]


def test_every_wrong_profile_is_told() -> None:
    refusals = make_pools(["train=h200:0", "rollout=h300:1", "judge=h200:9"], HARDWARE)[1]
    assert [refusal.code for refusal in refusals] == ["profile-invalid", "profile-unknown", "pool-impossible"]


def test_without_a_console_the_shape_is_assumed_and_says_so() -> None:
    found = pools("h200:16", hardware=None)
    assert found.assumed
    assert found.pools[0]["nodes"] == 2
    assert not pools("cpu", hardware=None).assumed
