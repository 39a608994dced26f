"""Which records are stored: arithmetic of ranges against a plain set of numbers."""

from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain import acked
from tuneplane_server.domain.acked import Acked, SeqRange

seqs = st.lists(st.integers(1, 60), max_size=40)


def as_set(state: Acked) -> set[int]:
    stored = set(range(1, state.contiguous + 1))
    for island in state.islands:
        stored.update(range(island.first, island.last + 1))
    return stored


@given(st.lists(seqs, max_size=6))
def test_adding_batches_in_any_order_stores_exactly_their_union(batches):
    state = Acked()
    for batch in batches:
        state = acked.add(state, batch)
    expected = {seq for batch in batches for seq in batch}
    assert as_set(state) == expected
    assert all(state.has(seq) == (seq in expected) for seq in range(1, 65))


@given(seqs)
def test_islands_are_sorted_disjoint_and_touch_nothing(numbers):
    state = acked.add(Acked(), numbers)
    edges = [state.contiguous, *(edge for island in state.islands for edge in island)]
    assert edges == sorted(edges)
    lasts = [state.contiguous, *(island.last for island in state.islands)]
    assert all(island.first > last + 1 for last, island in zip(lasts, state.islands, strict=False))


@given(seqs, st.integers(1, 60), st.integers(0, 10))
def test_a_range_that_will_never_come_is_not_waited_for(numbers, first, length):
    state = acked.fill(acked.add(Acked(), numbers), SeqRange(first, first + length))
    assert as_set(state) == set(numbers) | set(range(first, first + length + 1))


@given(seqs, st.integers(0, 5))
def test_a_bound_on_islands_gives_up_the_oldest_holes_and_nothing_stored(numbers, limit):
    state = acked.add(Acked(), numbers)
    smaller, given_up = acked.bounded(state, limit)
    lost = {seq for hole in given_up for seq in range(hole.first, hole.last + 1)}
    assert len(smaller.islands) <= limit
    assert as_set(smaller) == as_set(state) | lost
    assert not lost & as_set(state)
    assert given_up == sorted(given_up)


def test_a_steady_sender_needs_one_number():
    state = Acked()
    for batch in range(100):
        state = acked.add(state, range(batch * 1000 + 1, batch * 1000 + 1001))
    assert state == Acked(100_000, ())
