"""Sources are read in turns: none of them, however much it holds, keeps the output waiting."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.runner.sources import Record, Turns


class Numbers:
    """Three records with something between them that holds none; then, at the end, one that waited for it."""

    code = "numbers"

    def __init__(self) -> None:
        self.asked = 0

    def records(self, final: bool) -> Iterator[Record | None]:
        self.asked += 1
        if self.asked == 1:
            for number in range(3):
                yield Record("event", 0, {"n": number})
                yield None
        if final:
            yield Record("event", 0, {"n": "last"})

    def problem(self) -> str:
        return ""


def numbers(records: Iterator[Record]) -> list[object]:
    return [record.body["n"] for record in records]


def test_what_a_turn_does_not_come_to_waits_for_the_next() -> None:
    turns = Turns(Numbers())
    found: list[object] = []
    looks = 0
    while True:
        found += numbers(turns.take(0.0))
        if not turns.unfinished:
            break
        looks += 1
    assert found == [0, 1, 2]
    assert looks == 6, "it stops also where something was read that holds no record"


def test_at_the_end_everything_is_taken() -> None:
    turns = Turns(Numbers())
    assert numbers(turns.take(0.0)) == [0]
    assert numbers(turns.take_all()) == [1, 2, "last"]
    assert not turns.unfinished


def test_after_an_error_it_is_asked_anew() -> None:
    source = Numbers()
    turns = Turns(source)
    assert numbers(turns.take(0.0)) == [0]
    turns.give_up()
    assert numbers(turns.take(0.0)) == []
    assert source.asked == 2
