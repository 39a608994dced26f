from __future__ import annotations

from tests.tuneplane_server.domain.queue_build import job, later, live, machine, plan, pool
from tuneplane_server.domain.queue_facts import MOST_HOLDERS, free_for, holders_of


def test_what_is_free_where_the_job_could_run_the_most_first() -> None:
    made = plan([job("a", 8)], [machine("n1"), machine("n2"), machine("n3", 4, "a100")], live("x", "n1", (0, 1, 2)), live("y", "n2", (0,)))  # fmt: skip
    found = free_for([pool(8), pool(2)], made.rooms.values())
    assert [(item.node, item.profile, item.gpus) for item in found] == [("n2", "h200", 7), ("n1", "h200", 5)]


def test_who_holds_it_the_most_first_and_how_many_more() -> None:
    machines = {one.name: one for one in (machine("n1"), machine("n2", 4, "a100"))}
    running = [
        live("small", "n1", (0,), 5),
        live("big", "n1", (1, 2)),
        live("other", "n2", (0, 1, 2)),
        live("gone", "n9", (0,)),
    ]
    found, more = holders_of([pool(8)], running, machines)
    assert [(item.job_id, item.gpus, item.until) for item in found] == [("big", 2, None), ("small", 1, later(5))]
    assert more == 0
    many = [live(f"x{index}", "n1", (index,)) for index in range(8)]
    found, more = holders_of([pool(8)], many, machines)
    assert (len(found), more) == (MOST_HOLDERS, 3)


def test_of_pools_without_cards_who_holds_cpus() -> None:
    machines = {"n1": machine("n1")}
    running = [live("cards", "n1", (0,)), live("cpus", "n1", cpus=8)]
    found, _more = holders_of([pool(0, profile="cpu", cpus=64)], running, machines)
    assert [(item.job_id, item.cpus) for item in found] == [("cpus", 8)]
