"""What of a wait in the executor's own queue is worth an event: every change in the end, and never many."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain.executor_queue import is_news, queue_name, seen_in_queue

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)


def seen(minutes: float, word: str = "Priority", position: int | None = None, starts: float | None = None) -> Any:
    """What a look found so many minutes after the beginning; `starts`: the estimate, in minutes after the beginning."""
    estimate = None if starts is None else BEGAN + timedelta(minutes=starts)
    return seen_in_queue("slurm", word, "", position, estimate, None, BEGAN + timedelta(minutes=minutes))


def news(before: Any, now: Any) -> bool:
    return is_news(before, now, BEGAN)


def test_the_first_look_is_news_and_the_same_again_is_not() -> None:
    assert news(None, seen(0))
    assert not news(seen(0), seen(10_000))
    assert not news(seen(0, starts=50), seen(20, starts=50))


def test_a_reason_a_place_an_estimate_are_news_once_a_minute_has_passed() -> None:
    before = seen(0, position=4, starts=60)
    for change in ({"word": "Resources"}, {"position": 3}, {"starts": 70}, {"starts": None}):
        changed: dict[str, Any] = {"position": 4, "starts": 60, **change}
        assert not news(before, seen(0.9, **changed))
        assert news(before, seen(1, **changed))


def test_what_was_not_known_before_is_news_at_once() -> None:
    answers: list[dict[str, Any]] = [{"word": "Priority"}, {"word": "", "position": 3}, {"word": "None", "starts": 60}]
    for known in answers:
        assert news(seen(0, "None"), seen(0.1, **known))
    assert not news(seen(0, position=3), seen(0.1))


def test_an_estimate_that_moves_by_little_of_what_is_left_is_the_same() -> None:
    assert not news(seen(0, starts=600), seen(1, starts=620))
    assert news(seen(0, starts=600), seen(1, starts=640))
    assert not news(seen(0, starts=3), seen(2, starts=3.9))  # nobody plans by less than a minute


@given(st.lists(st.tuples(st.floats(0.01, 30), st.integers(1, 900), st.sampled_from("ab")), max_size=300))
def test_however_it_moves_there_are_few_events_and_none_is_kept_back_for_long(
    looks: list[tuple[float, int, str]],
) -> None:
    written, minutes, count = seen(0), 0.0, 1
    for pause, position, word in looks:
        minutes += pause
        now = seen(minutes, word, position)
        if news(written, now):
            written, count = now, count + 1
        else:
            age = datetime.fromisoformat(now["seen_at"]) - datetime.fromisoformat(written["seen_at"])
            same = (written["word"], written["position"]) == (word, position)
            assert same or age < timedelta(minutes=10)
    assert count <= 3 + minutes
    assert count <= 120 + minutes / 10


def test_a_queue_is_called_as_people_call_it() -> None:
    assert (queue_name("slurm"), queue_name("other")) == ("Slurm", "other")
