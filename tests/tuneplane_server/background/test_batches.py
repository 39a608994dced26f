"""Which rows belong together, whose turn it is, and who rests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tuneplane_server.background.batches import Rests, Turns, batches

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_batches_are_neighbours_under_lasting_names() -> None:
    assert list(batches(["a", "b", "c"], 2, "x")) == [("x-0000", ["a", "b"]), ("x-0001", ["c"])]
    assert list(batches([], 2)) == []


def test_everybody_has_a_turn_before_anybody_has_a_second() -> None:
    turns, names = Turns(2), ["a", "b", "c", "d", "e"]
    had = [sorted(set(names) - turns.later(names)) for _round in range(5)]
    assert had == [["a", "b"], ["c", "d"], ["a", "e"], ["b", "c"], ["d", "e"]]
    assert turns.later(["a", "new"]) == set(), "as many as may"
    assert turns.later(["new", "a", "newer"]) == {"a"}, "who never had one comes first"


def test_who_did_not_answer_rests_longer_each_time() -> None:
    rests = Rests(timedelta(seconds=1), timedelta(seconds=4))
    assert not rests.rests("a", NOW)
    now = NOW
    for seconds in (1, 2, 4, 4):
        rests.let_rest("a", now)
        assert rests.rests("a", now + timedelta(seconds=seconds - 0.1))
        assert not rests.rests("b", now)
        now += timedelta(seconds=seconds)
        assert not rests.rests("a", now)
    assert not rests.rests("a", NOW - timedelta(days=1)), "a clock was set back"
    rests.wake("a")
    rests.let_rest("a", now)
    assert not rests.rests("a", now + timedelta(seconds=1))
    rests.keep_only(["b"])
    assert not rests.rests("a", now)
