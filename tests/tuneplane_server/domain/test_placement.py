from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain.placement import Machine, NodeRoom, NoRoom, PoolRequest, place, room_of


def node(name: str, *gpus: int, profile: str = "h200", cpus: float = 64, memory: float = 512) -> NodeRoom:
    return NodeRoom(name, {profile: gpus, "cpu": ()}, cpus, memory)


def test_a_job_takes_the_tightest_node_that_fits() -> None:
    nodes = [node("a", 0, 1, 2, 3, 4, 5, 6, 7), node("b", 4, 5)]
    placed = place([PoolRequest("main", "h200", 1, 2)], nodes)
    assert isinstance(placed, list)
    assert [(item.node, item.gpus) for item in placed] == [("b", (4, 5))]


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    nodes = [node("a", 0, 1), node("b", 0)]
    assert place([PoolRequest("main", "h200", 2, 2)], nodes) == NoRoom(PoolRequest("main", "h200", 2, 2), 1, 3)
    placed = place([PoolRequest("main", "h200", 2, 1)], nodes)
    assert isinstance(placed, list)
    assert [(item.node, item.gpus) for item in placed] == [("b", (0,)), ("a", (0,))]


def test_pools_of_one_job_do_not_take_the_same_cards() -> None:
    placed = place([PoolRequest("train", "h200", 1, 2), PoolRequest("rollout", "h200", 1, 2)], [node("a", 0, 1, 2, 3)])
    assert isinstance(placed, list)
    assert [item.gpus for item in placed] == [(0, 1), (2, 3)]


def test_a_cpu_pool_needs_cpus_and_memory_and_no_card() -> None:
    nodes = [node("a", cpus=2, memory=4)]
    assert isinstance(place([PoolRequest("main", "cpu", 1, 0, cpus=2, memory_gb=4)], nodes), list)
    assert isinstance(place([PoolRequest("main", "cpu", 1, 0, cpus=3, memory_gb=4)], nodes), NoRoom)
    assert isinstance(place([PoolRequest("main", "cpu", 1, 0, cpus=2, memory_gb=5)], nodes), NoRoom)


def test_a_profile_nobody_has_finds_no_room() -> None:
    assert place([PoolRequest("main", "b300", 1, 1)], [node("a", 0)]) == NoRoom(PoolRequest("main", "b300", 1, 1), 0, 0)


@given(
    st.lists(st.integers(0, 8), max_size=5),
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 8)), min_size=1, max_size=3),
)
def test_no_card_is_given_twice_and_every_machine_gets_what_it_asked_for(
    cards: list[int], wanted: list[tuple[int, int]]
) -> None:
    nodes = [node(f"n{index}", *range(count)) for index, count in enumerate(cards)]
    pools = [PoolRequest(f"p{index}", "h200", machines, gpus) for index, (machines, gpus) in enumerate(wanted)]
    placed = place(pools, nodes)
    if isinstance(placed, NoRoom):
        assert placed.fitting_nodes < placed.pool.nodes
        return
    held = [(item.node, gpu) for item in placed for gpu in item.gpus]
    assert len(set(held)) == len(held)
    assert all(gpu in next(n for n in nodes if n.name == name).free_gpus["h200"] for name, gpu in held)
    for pool in pools:
        mine = [item for item in placed if item.pool == pool.name]
        assert len(mine) == pool.nodes == len({item.node for item in mine})
        assert all(len(item.gpus) == pool.gpus_per_node for item in mine)


def test_the_machine_that_comes_closest_has_most_of_what_is_wanted_and_then_is_the_largest() -> None:
    def machine(name: str, cards: int, cpus: float, memory: float) -> Machine:
        return Machine(name, {"cpu": (), "h200": tuple(range(cards))}, cpus, memory)

    some = [machine("many-cards", 8, 8, 64), machine("many-cpus", 2, 64, 64), machine("larger", 8, 9, 64)]
    assert room_of(PoolRequest("main", "h200", 1, 16, cpus=4), some) == some[2], "as near as the first, and larger"
    assert room_of(PoolRequest("main", "h200", 1, 2, cpus=128), some) == some[1]
    assert room_of(PoolRequest("main", "cpu", 1, 0), some) == some[1], (
        "each is as near to who wants nothing; it has most CPUs"
    )
    assert room_of(PoolRequest("main", "b200", 1, 1), some) is None
