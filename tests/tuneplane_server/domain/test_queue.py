"""The queue: who starts, who waits for what, and promises that backfill keeps."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuneplane_server.domain.queue_build import (
    NOW,
    job,
    later,
    live,
    machine,
    placed,
    plan,
    pool,
    situations,
    waits,
)
from tuneplane_server.domain.line import Live, Plan, Waiting
from tuneplane_server.domain.placement import Hold, Machine
from tuneplane_server.domain.queue import CLEARING, COMING_UP, latest_end
from tuneplane_server.domain.quotas import Account, Limits, Scope, Want, blocked
from tuneplane_server.domain.reservations import Ending, reserve


class TestOrder:
    def test_priority_goes_before_everything(self) -> None:
        made = plan([job("old", 8, age=99), job("urgent", 8, priority=1)], [machine("n1")])
        assert waits(made) == {"urgent": ("next", 1), "old": ("cards", 2)}

    def test_who_has_used_less_goes_before_who_has_waited_longer(self) -> None:
        line = [job("heavy", 8, owner="bob", age=60), job("light", 8, owner="ada")]
        assert list(placed(plan(line, [machine("n1")], use={"bob": 1e6}))) == ["light"]

    def test_of_two_who_have_used_the_same_the_older_goes_first(self) -> None:
        line = [job("young", 8, owner="ada"), job("old", 8, owner="bob", age=1)]
        assert list(placed(plan(line, [machine("n1")], use={"bob": 100.0}))) == ["old"]

    def test_owners_alternate_however_many_jobs_one_of_them_queues(self) -> None:
        line = [job(f"many-{index}", 1, owner="bob", age=60 - index) for index in range(6)]
        line.append(job("one", 1, owner="ada"))
        assert list(waits(plan(line, [machine("n1", 2)])))[:2] == ["many-0", "one"]


class TestGang:
    def test_all_machines_of_all_pools_or_none(self) -> None:
        both = job("both", pool(8), pool(4, profile="a100"))
        machines = [machine("n1"), machine("n2", 4, "a100")]
        assert placed(plan([both], machines)) == {"both": [("n1", tuple(range(8))), ("n2", (0, 1, 2, 3))]}
        held = plan([both], machines, live("x", "n2", (1,)))
        assert (placed(held), waits(held)) == ({}, {"both": ("cards", 1)})

    def test_a_machine_that_is_not_there_makes_nobody_else_wait(self) -> None:
        made = plan([job("odd", pool(1, profile="b300"), age=5), job("wide", pool(8, nodes=2)), job("fits", 1)], [machine("n1")])  # fmt: skip
        assert waits(made) == {"fits": ("next", 1), "odd": ("machines", None), "wide": ("machines", None)}

    def test_a_hold_on_a_node_that_is_gone_holds_nothing_of_the_others(self) -> None:
        assert waits(plan([job("a", 8, age=1), job("b", 1)], [machine("n1")], live("x", "gone", (0, 1)))) == {
            "a": ("next", 1),
            "b": ("cards", 2),
        }


class TestHeldBack:
    def test_each_says_why_and_stands_in_no_line(self) -> None:
        line = [
            job("paused", 1, held_back="paused"),
            job("unapproved", 1, held_back="awaiting-approval"),
            job("resting", 1, not_before=later(5)),
            job("rested", 1, not_before=NOW),
        ]
        assert waits(plan(line, [machine("n1")])) == {
            "rested": ("next", 1),
            "paused": ("paused", None),
            "unapproved": ("awaiting-approval", None),
            "resting": ("resting", None),
        }

    def test_a_drain_starts_nothing_and_keeps_the_line(self) -> None:
        made = plan([job("a", 1, age=1), job("b", 1)], [machine("n1")], drained=True)
        assert (placed(made), waits(made)) == ({}, {"a": ("drained", 1), "b": ("drained", 2)})


def account(owner: str, limits: Limits, *, gpus: int = 0, jobs: int = 0) -> dict[tuple[Scope, str], Account]:
    return {("user", owner): Account("user", owner, owner, limits, gpus=gpus, jobs=jobs)}


class TestQuotas:
    def test_a_quota_holds_back_its_own_owner_and_nobody_behind(self) -> None:
        line = [job("mine", 4, age=2), job("theirs", 4, owner="bob")]
        made = plan(line, [machine("n1")], accounts=account("ada", Limits(gpus=8), gpus=6))
        assert waits(made) == {"theirs": ("next", 1), "mine": ("quota", None)}
        block = made.waits["mine"].block
        assert block is not None
        assert (block.rule, block.limit, block.used, block.wanted) == ("gpus", 8, 6, 4)

    def test_what_a_plan_places_counts_at_once(self) -> None:
        line = [job("first", 4, age=3), job("second", 4, age=2), job("third", 4, age=1)]
        made = plan(line, [machine("n1", 16)], accounts=account("ada", Limits(gpus=8)))
        assert waits(made) == {"first": ("next", 1), "second": ("next", 2), "third": ("quota", None)}

    def test_nobody_of_the_same_account_overtakes_who_waits_for_its_cards(self) -> None:
        line = [job("big", 4, age=2), job("small", 1, age=1), job("cpu", pool(0, profile="cpu", cpus=1))]
        made = plan(line, [machine("n1")], accounts=account("ada", Limits(gpus=8), gpus=6))
        assert waits(made) == {"cpu": ("next", 1), "big": ("quota", None), "small": ("quota", None)}
        assert (made.waits["big"].behind, made.waits["small"].behind) == (None, "big")

    def test_a_limit_of_jobs_holds_back_jobs_without_cards_too(self) -> None:
        line = [job("a", 1, age=2), job("b", pool(0, profile="cpu", cpus=1), age=1)]
        made = plan(line, [machine("n1")], accounts=account("ada", Limits(jobs=2), jobs=2))
        assert [waits(made)[item][0] for item in "ab"] == ["quota", "quota"]
        assert made.waits["b"].behind == "a"

    def test_hours_that_are_used_up_hold_back_only_what_would_take_more(self) -> None:
        limits = Limits(gpu_hours_day=4)
        line = [job("long", 1, age=2, max_seconds=5 * 3600), job("short", 1, age=1, max_seconds=3600)]
        made = plan(line, [machine("n1")], accounts=account("ada", limits))
        assert waits(made) == {"short": ("next", 1), "long": ("quota", None)}
        block = made.waits["long"].block
        assert block is not None
        assert block.until == NOW.replace(hour=0) + timedelta(days=1)

    def test_a_project_holds_back_its_own_jobs_of_every_owner(self) -> None:
        accounts: dict[tuple[Scope, str], Account] = {
            ("project", "lab"): Account("project", "lab", "ada/lab", Limits(gpus=2), gpus=1)
        }
        line = [job("a", 2, project="lab", age=1), job("b", 1, owner="bob", project="lab"), job("c", 1, owner="bob")]
        assert waits(plan(line, [machine("n1")], accounts=accounts)) == {
            "c": ("next", 1),
            "a": ("quota", None),
            "b": ("quota", None),
        }


class TestBackfill:
    def test_nobody_passes_a_head_whose_start_nobody_knows(self) -> None:
        made = plan([job("big", 8, age=1), job("small", 1)], [machine("n1")], live("x", "n1", (0, 1, 2)))
        assert waits(made) == {"big": ("cards", 1), "small": ("turn", 2)}
        assert (made.waits["big"].estimate, made.waits["small"].behind) == (None, "big")

    def test_the_head_is_promised_the_moment_at_which_enough_have_ended(self) -> None:
        running = [live("x", "n1", (0, 1), 30), live("y", "n1", (2, 3), 90), live("z", "n1", (4,), 60)]
        made = plan([job("big", 7)], [machine("n1")], *running)
        assert made.waits["big"].estimate == later(90)
        assert plan([job("big", 6)], [machine("n1")], *running).waits["big"].estimate == later(60)
        assert plan([job("big", 5)], [machine("n1")], *running).waits["big"].estimate == later(30)

    def test_who_surely_ends_in_time_may_pass(self) -> None:
        spare = timedelta(minutes=60) - COMING_UP - CLEARING
        line = [job("big", 8, age=2), job("long", 1, age=1, max_seconds=int(spare.total_seconds()) + 1)]
        line.append(job("short", 1, max_seconds=int(spare.total_seconds())))
        made = plan(line, [machine("n1")], live("x", "n1", (0, 1, 2), 60))
        assert waits(made) == {"big": ("cards", 1), "long": ("turn", 2), "short": ("next", 3)}

    def test_cards_that_the_head_cannot_use_are_anybodys(self) -> None:
        line = [job("big", pool(8), age=1), job("other", pool(2, profile="a100"))]
        made = plan(line, [machine("n1"), machine("n2", 2, "a100")], live("x", "n1", (0,)))
        assert waits(made) == {"big": ("cards", 1), "other": ("next", 2)}

    def test_cards_in_excess_are_anybodys_and_no_more_than_those(self) -> None:
        line = [job("big", 6, age=2), job("one", 2, age=1), job("two", 1)]
        made = plan(line, [machine("n1")], live("x", "n1", (0, 1, 2), 60))
        assert waits(made) == {"big": ("cards", 1), "one": ("next", 2), "two": ("turn", 3)}

    def test_what_wants_other_cards_makes_a_line_of_its_own(self) -> None:
        line = [job("h", 8, age=3), job("a", pool(4, profile="a100"), age=2), job("small", pool(1, profile="a100"))]
        machines = [machine("n1"), machine("n2", 4, "a100")]
        made = plan(line, machines, live("x", "n1", (0,)), live("y", "n2", (0,), 30))
        assert waits(made) == {"h": ("cards", 1), "a": ("cards", 2), "small": ("turn", 3)}
        assert (made.waits["a"].estimate, made.waits["small"].behind) == (later(30), "a")

    def test_a_second_line_that_wants_the_same_cpus_is_promised_nothing(self) -> None:
        line = [job("h", pool(8, cpus=60), age=2), job("c", pool(0, profile="cpu", cpus=60))]
        made = plan(line, [machine("n1")], live("x", "n1", (0,), 30, cpus=10))
        assert waits(made) == {"h": ("cards", 1), "c": ("cpus", 2)}
        assert (made.waits["h"].estimate, made.waits["c"].estimate) == (later(30), None)

    def test_a_further_job_for_the_same_cards_stands_behind_without_a_promise(self) -> None:
        made = plan([job("a", 8, age=1), job("b", 8)], [machine("n1")], live("x", "n1", (0,), 30))
        assert waits(made) == {"a": ("cards", 1), "b": ("cards", 2)}
        assert made.waits["b"].estimate is None

    def test_a_run_past_its_end_ends_nobody_knows_when(self) -> None:
        assert plan([job("a", 8)], [machine("n1")], live("x", "n1", (0,), -1)).waits["a"].estimate is None

    def test_a_placement_of_the_same_plan_is_counted_on_to_end(self) -> None:
        line = [job("first", 8, age=1, max_seconds=600), job("second", 8)]
        made = plan(line, [machine("n1")])
        assert made.waits["second"].estimate == NOW + timedelta(seconds=600) + COMING_UP + CLEARING

    def test_room_for_one_pool_of_the_head_is_not_taken_when_that_leads_its_placement_astray(self) -> None:
        """Pools are placed one after the other, on the tightest node: with 5 and 5 cards the head fits, with 5 and 4 its first
        pool would go to the node with 4, and the third would find no room.
        """
        line = [job("head", pool(2), pool(3), pool(3), age=1), job("small", 1)]
        machines, running = [machine("n1", 5), machine("n2", 5)], live("x", "n1", (0, 1, 2, 3, 4), 60)
        made = plan(line, machines, running)
        assert waits(made) == {"head": ("cards", 1), "small": ("turn", 2)}
        assert made.waits["head"].estimate == later(60)
        assert plan(line[1:], machines, running).waits["small"].kind == "next"


class TestLatestEnd:
    def test_none_without_a_limit(self) -> None:
        assert latest_end(NOW, NOW, None, NOW) is None

    def test_counts_from_the_start_once_it_is_known(self) -> None:
        assert latest_end(NOW, later(1), 60, later(9)) == later(2) + CLEARING

    def test_counts_from_now_while_it_comes_up_for_longer_than_usual(self) -> None:
        assert latest_end(NOW, None, 60, NOW) == later(1) + COMING_UP + CLEARING
        assert latest_end(NOW, None, 60, later(30)) == later(31) + CLEARING


def test_a_reservation_of_what_never_fits_is_a_mistake_of_the_caller() -> None:
    machines = {"n1": machine("n1")}
    with pytest.raises(ValueError, match="does not fit"):
        reserve("x", (pool(9),), {}, [Ending(None, (Hold("gone"),)), Ending(NOW, ())], machines)


# --- properties -------------------------------------------------------------------------------------------------------

SITUATION = situations()
PATIENT = settings(deadline=None)  # how long an example takes says nothing on a machine that others use too


def _promise(made: Plan, heads: list[Waiting], machines: list[Machine], running: list[Live]) -> datetime | None:
    """What the head is promised when all that the plan placed runs."""
    by_id = {one.job_id: one for one in heads}
    started = [
        Live(
            item.job_id,
            "",
            tuple(Hold(part.node, part.gpus, part.cpus, part.memory_gb) for part in item.assignments),
            latest_end(NOW, None, by_id[item.job_id].max_seconds, NOW) if item.job_id in by_id else None,
        )
        for item in made.placements
    ]
    head = next(iter(wait for wait in made.waits.values() if wait.kind in ("cards", "cpus")))
    again = plan([by_id[head.job_id]], machines, *running, *started)
    return again.waits[head.job_id].estimate


@PATIENT
@given(SITUATION)
def test_no_card_is_given_twice_and_no_node_gives_more_than_it_has(
    situation: tuple[list[Waiting], list[Live], list[Machine]],
) -> None:
    line, running, machines = situation
    made = plan(line, machines, *running)
    held = [(hold.node, card) for item in running for hold in item.holds for card in hold.gpus]
    given_out = [(part.node, card) for item in made.placements for part in item.assignments for card in part.gpus]
    assert max(Counter(held + given_out).values(), default=1) == 1
    for one in machines:
        cpus = sum(hold.cpus for item in running for hold in item.holds if hold.node == one.name)
        cpus += sum(part.cpus for item in made.placements for part in item.assignments if part.node == one.name)
        assert cpus <= one.cpus


@PATIENT
@given(SITUATION)
def test_every_waiting_job_gets_exactly_one_answer_and_a_gang_is_whole(
    situation: tuple[list[Waiting], list[Live], list[Machine]],
) -> None:
    line, running, machines = situation
    made = plan(line, machines, *running)
    assert set(made.waits) == {item.job_id for item in line}
    positions = [wait.position for wait in made.waits.values() if wait.position is not None]
    assert positions == list(range(1, len(positions) + 1))
    by_id = {item.job_id: item for item in line}
    assert {item.job_id for item in made.placements} == {w.job_id for w in made.waits.values() if w.kind == "next"}
    for item in made.placements:
        assert len(item.assignments) == sum(one.nodes for one in by_id[item.job_id].pools)
        assert sum(len(part.gpus) for part in item.assignments) == by_id[item.job_id].gpus
    assert plan(line, machines, *running) == made


@PATIENT
@given(SITUATION)
def test_backfill_never_puts_the_head_back(situation: tuple[list[Waiting], list[Live], list[Machine]]) -> None:
    """The head's promise, made again with everything running that the plan started, is no later than the promise without it."""
    line, running, machines = situation
    made = plan(line, machines, *running)
    head = next((wait for wait in made.waits.values() if wait.kind in ("cards", "cpus")), None)
    if head is None or head.estimate is None:
        return
    again = _promise(made, line, machines, running)
    assert again is not None
    assert again <= head.estimate


@PATIENT
@given(SITUATION)
def test_without_a_promise_backfill_leaves_the_head_its_place(
    situation: tuple[list[Waiting], list[Live], list[Machine]],
) -> None:
    """Once everything that ran before has ended, the head fits beside all that passed it, however long that runs."""
    line, running, machines = situation
    made = plan(line, machines, *running)
    head = next((wait for wait in made.waits.values() if wait.kind in ("cards", "cpus")), None)
    by_id = {item.job_id: item for item in line}
    if head is None or head.estimate is not None or len(by_id[head.job_id].pools) > 1:
        return
    passed = [item for item in made.placements if (made.waits[item.job_id].position or 0) > (head.position or 0)]
    stay = [Live(item.job_id, "", tuple(Hold(p.node, p.gpus, p.cpus, p.memory_gb) for p in item.assignments)) for item in passed]  # fmt: skip
    assert plan([by_id[head.job_id]], machines, *stay).waits[head.job_id].kind == "next"


@PATIENT
@given(SITUATION, st.integers(0, 6), st.integers(0, 3))
def test_no_account_gets_more_than_its_quota(
    situation: tuple[list[Waiting], list[Live], list[Machine]], gpus: int, jobs: int
) -> None:
    line, running, machines = situation
    limits = Limits(gpus=gpus, jobs=jobs)
    accounts = account("ada", limits)
    made = plan(line, machines, *running, accounts=accounts)
    mine = [item for item in line if item.owner_id == "ada" and made.waits[item.job_id].kind == "next"]
    assert sum(item.gpus for item in mine) <= gpus
    assert len(mine) <= jobs
    after = accounts["user", "ada"]
    for item in mine:
        assert blocked(after, Want(item.gpus, item.max_seconds), NOW) is None
        after = after.with_(Want(item.gpus, item.max_seconds), NOW)
