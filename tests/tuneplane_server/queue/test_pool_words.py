"""What a pool wants and what the largest machine has: only what was asked for, and what is really there."""

from __future__ import annotations

import pytest

from tuneplane.i18n import using_language
from tuneplane_server.domain.placement import Machine, PoolRequest
from tuneplane_server.features.queue.pool_words import claim_text, closest_text, wants_text


def cards(count: int) -> dict[str, tuple[int, ...]]:
    return {"cpu": (), "h200": tuple(range(count))}


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (PoolRequest("main", "h200", 2, 8), "the pool main wants 2 machines with 8 h200 each"),
        (PoolRequest("main", "h200", 1, 8, cpus=64), "the pool main wants 1 machine with 8 h200 and 64 CPUs"),
        (
            PoolRequest("main", "h200", 2, 8, 64, 512.5),
            "the pool main wants 2 machines with 8 h200, 64 CPUs and 512.5 GB of memory each",
        ),
        (PoolRequest("main", "cpu", 3, 0), "the pool main wants 3 machines of the profile cpu"),
        (PoolRequest("main", "cpu", 1, 0, 1), "the pool main wants 1 machine with 1 CPU"),
    ],
)
def test_only_what_was_asked_for_is_named(pool: PoolRequest, said: str) -> None:
    assert wants_text(pool) == said


def test_the_machine_that_comes_closest_is_named_with_what_it_has() -> None:
    machines = [
        Machine("small", cards(4), 64, 2000),
        Machine("large", cards(8), 32, 512),
        Machine("plain", {"cpu": ()}, 128, 64),
    ]
    pool = PoolRequest("main", "h200", 1, 8, cpus=48)
    assert closest_text(pool, machines) == "the largest machine for it, large, has 8 h200, 32 CPUs and 512 GB of memory"
    memory = PoolRequest("main", "cpu", 1, 0, memory_gb=4000)
    assert closest_text(memory, machines) == "the largest machine for it, small, has 64 CPUs and 2000 GB of memory"
    assert closest_text(PoolRequest("main", "h100", 1, 8), machines) == ""


def test_a_claim_on_neither_cpus_nor_memory_says_nothing() -> None:
    assert claim_text(0, 0) == ""
    assert claim_text(0, 4) == "4 GB of memory"


def test_in_chinese() -> None:
    pool = PoolRequest("main", "h200", 2, 8, 64)
    with using_language("zh-Hans"):
        assert wants_text(pool) == "池 main 要 2 台机器，每台 8 张 h200、64 个 CPU"
