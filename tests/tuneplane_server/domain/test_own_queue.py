"""The plan where the executor has a queue of its own: who may go goes, in the order of the fair share, and machines count for nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.tuneplane_server.domain.queue_build import job, later, live, machine, placed, plan, pool, situations, waits
from tuneplane_server.domain.line import AccountKey, Live, Plan, Waiting
from tuneplane_server.domain.own_queue import is_counted, real_nodes
from tuneplane_server.domain.placement import Machine
from tuneplane_server.domain.quotas import Account, Limits

type Situation = tuple[list[Waiting], list[Live], list[Machine]]
PLENTY = [
    Machine(f"big-{profile}-{index}", {"cpu": (), profile: tuple(range(4))}, 10_000, 10_000)
    for profile in ("h200", "a100")
    for index in range(40)
]


def passed_on(waiting: list[Waiting], *running: Live, machines: list[Machine] | None = None, **known: Any) -> Plan:
    return plan(waiting, machines or [], *running, own_queue="slurm", **known)


@st.composite
def limits(draw: st.DrawFn) -> dict[AccountKey, Account]:
    accounts: dict[AccountKey, Account] = {}
    for owner in draw(st.sets(st.sampled_from(["ada", "bob", "eve"]))):
        most = Limits(
            gpus=draw(st.one_of(st.none(), st.integers(1, 8))), jobs=draw(st.one_of(st.none(), st.integers(1, 3)))
        )
        accounts["user", owner] = Account(
            "user", owner, owner, most, gpus=draw(st.integers(0, 4)), jobs=draw(st.integers(0, 2))
        )
    return accounts


@given(situations(), limits(), st.booleans())
def test_it_lets_through_what_would_start_if_there_were_machines_without_end(
    situation: Situation, accounts: dict[AccountKey, Account], drained: bool
) -> None:
    line, running, machines = situation
    made = passed_on(line, *running, machines=machines, accounts=accounts, drained=drained)
    ideal = plan(line, PLENTY, accounts=accounts, drained=drained)
    assert waits(made) == waits(ideal)
    assert [item.job_id for item in made.placements] == [item.job_id for item in ideal.placements]
    assert list(made.waits) == list(ideal.waits)
    assert all(wait.estimate is None for wait in made.waits.values())


@given(situations())
def test_what_it_assigns_is_what_was_asked_for_and_meets_nothing_else(situation: Situation) -> None:
    line, _running, machines = situation
    made, again = passed_on(line), passed_on([replace(item, attempt=item.attempt + 1) for item in line])
    asked = {item.job_id: item for item in line}
    names = [part.node for one in (made, again) for item in one.placements for part in item.assignments]
    assert len(set(names)) == len(names)
    assert not set(names) & {one.name for one in machines}
    assert all(is_counted(name) for name in names)
    for item in made.placements:
        shapes = [
            (part.name, part.gpus_per_node, part.cpus, part.memory_gb)
            for part in asked[item.job_id].pools
            for _machine in range(part.nodes)
        ]
        assert [(one.pool, len(one.gpus), one.cpus, one.memory_gb) for one in item.assignments] == shapes


def test_the_machines_of_a_job_are_numbered_over_its_pools() -> None:
    made = passed_on([job("both", pool(2, nodes=2), pool(1, profile="a100"), attempt=3)])
    assert placed(made) == {"both": [("slurm/both-3/0", (0, 1)), ("slurm/both-3/1", (0, 1)), ("slurm/both-3/2", (0,))]}


def test_what_runs_and_what_is_there_keep_nobody_waiting() -> None:
    line = [job("more-than-there-is", pool(8, nodes=9)), job("small", 1, age=3)]
    full = live("x", "n1", tuple(range(8)))
    assert waits(passed_on(line, full, machines=[machine("n1")])) == {
        "small": ("next", 1),
        "more-than-there-is": ("next", 2),
    }


def test_who_is_held_back_or_rests_is_not_passed_on_and_in_maintenance_nobody() -> None:
    line = [
        job("paused", 1, held_back="paused"),
        job("unapproved", 1, held_back="awaiting-approval"),
        job("resting", 1, not_before=later(5)),
        job("ready", 1),
    ]
    held = {"paused": ("paused", None), "unapproved": ("awaiting-approval", None), "resting": ("resting", None)}
    assert waits(passed_on(line)) == {"ready": ("next", 1)} | held
    drained = passed_on(line, drained=True)
    assert (waits(drained), placed(drained)) == ({"ready": ("drained", 1)} | held, {})


def test_a_quota_counts_what_was_passed_on_before_in_the_same_plan() -> None:
    accounts: dict[AccountKey, Account] = {("user", "ada"): Account("user", "ada", "ada", Limits(gpus=4), gpus=1)}
    line = [job("first", 2, age=3), job("second", 2, age=2), job("third", 1, age=1), job("other", 8, owner="bob")]
    made = passed_on(line, accounts=accounts)
    assert set(placed(made)) == {"first", "other"}
    # Whoever waits for cards of a quota is not overtaken by others of the same account.
    assert made.waits["third"].behind == "second"


def test_only_names_of_machines_are_shown_each_once() -> None:
    assert real_nodes(["n2", "slurm/run-1/1", "n1", "n2"]) == ("n2", "n1")
