"""What goes, and in which order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain.retention import Ended, Keep, Kind, Removal, Why, removals

NOW = datetime(2026, 1, 31, tzinfo=UTC)
EVERYTHING = Keep({})


def run(job_id: str, days: float, logs: int = 10, samples: int = 5, metrics: bool = True) -> Ended:
    return Ended(job_id, NOW - timedelta(days=days), logs, samples, metrics)


def test_everything_is_kept_unless_said_otherwise():
    assert EVERYTHING.everything
    assert not Keep({Kind.LOGS: 1}).everything
    assert not Keep({}, 0).everything
    assert removals(EVERYTHING, [run("a", 10_000)], 10**15, NOW, 10) == []


def test_each_kind_goes_by_its_own_age():
    keep = Keep({Kind.LOGS: 7, Kind.METRICS: 30})
    runs = [run("a", 30), run("b", 7), run("c", 6.99), run("d", 40, logs=0, metrics=False)]
    found = [Removal("a", Kind.LOGS, Why.AGE), Removal("a", Kind.METRICS, Why.AGE), Removal("b", Kind.LOGS, Why.AGE)]
    assert removals(keep, runs, 0, NOW, 10) == found
    assert removals(keep, runs, 0, NOW, 2) == found[:2]


def test_beyond_the_size_the_oldest_goes_first_samples_before_output_and_never_metrics():
    runs = [run("a", 3), run("b", 2), run("c", 1)]
    size = [
        Removal("a", Kind.SAMPLES, Why.SIZE),
        Removal("a", Kind.LOGS, Why.SIZE),
        Removal("b", Kind.SAMPLES, Why.SIZE),
    ]
    assert removals(Keep({}, 45), runs, 45, NOW, 10) == []
    assert removals(Keep({}, 28), runs, 45, NOW, 10) == size
    # What goes by its age makes room too.
    by_age = removals(Keep({Kind.SAMPLES: 3}, 40), runs, 45, NOW, 10)
    assert by_age == [Removal("a", Kind.SAMPLES, Why.AGE)]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 100), st.integers(0, 100), st.booleans()), max_size=8),
    st.dictionaries(st.sampled_from(list(Kind)), st.integers(1, 50)),
    st.none() | st.integers(0, 500),
    st.integers(0, 300),
)
def test_what_is_left_is_within_the_size_or_belongs_to_live_runs(ended, days, total, live_bytes):
    runs = [run(str(n), age, logs, samples, metrics) for n, (age, logs, samples, metrics) in enumerate(ended)]
    runs.sort(key=lambda one: one.finished_at)
    used = live_bytes + sum(one.log_bytes + one.sample_bytes for one in runs)
    found = removals(Keep(days, total), runs, used, NOW, 1000)
    assert len({(one.job_id, one.kind) for one in found}) == len(found)
    by_id = {one.job_id: one for one in runs}
    assert all(by_id[one.job_id].holds(one.kind) for one in found)
    sizes = {Kind.LOGS: "log_bytes", Kind.SAMPLES: "sample_bytes"}
    gone = sum(getattr(by_id[one.job_id], sizes[one.kind]) for one in found if one.kind in sizes)
    if total is not None:
        assert used - gone <= max(total, live_bytes)
