"""Which records of one (attempt, rank, stream) are stored: a contiguous prefix and a few islands beyond it.

The size is bounded, so that telling a duplicate costs the same on the first and on the last day of a run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

MAX_ISLANDS = 256


class SeqRange(NamedTuple):
    """Inclusive on both ends."""

    first: int
    last: int


class Acked(NamedTuple):
    """Seqs 1…`contiguous` are stored, and those of `islands`: sorted, disjoint, never touching each other or the prefix."""

    contiguous: int = 0
    islands: tuple[SeqRange, ...] = ()

    def has(self, seq: int) -> bool:
        if seq <= self.contiguous:
            return True
        index = bisect_right(self.islands, seq, key=lambda island: island.first) - 1
        return index >= 0 and seq <= self.islands[index].last


def add(acked: Acked, seqs: Iterable[int]) -> Acked:
    """`acked` with `seqs` (each ≥ 1, any order, repeats allowed) stored too."""
    merged: list[SeqRange] = [SeqRange(1, acked.contiguous)] if acked.contiguous else []
    for piece in sorted([*acked.islands, *runs(seqs)]):
        if merged and piece.first <= merged[-1].last + 1:
            merged[-1] = SeqRange(merged[-1].first, max(merged[-1].last, piece.last))
        else:
            merged.append(piece)
    if merged and merged[0].first == 1:
        return Acked(merged[0].last, tuple(merged[1:]))
    return Acked(0, tuple(merged))


def fill(acked: Acked, missing: SeqRange) -> Acked:
    """`acked` with a range that its sender says it will never send: it must not be waited for."""
    without = Acked(acked.contiguous, tuple(sorted([*acked.islands, missing])))
    return add(without, ())


def bounded(acked: Acked, limit: int = MAX_ISLANDS) -> tuple[Acked, list[SeqRange]]:
    """`acked` with at most `limit` islands, and the holes given up for it, oldest first.

    A sender that lost that many separate pieces will not find them again; a row that grew with every hole would make
    each later batch dearer.
    """
    given_up: list[SeqRange] = []
    while len(acked.islands) > limit:
        oldest = acked.islands[0]
        given_up.append(SeqRange(acked.contiguous + 1, oldest.first - 1))
        acked = Acked(oldest.last, acked.islands[1:])
    return acked, given_up


def runs(seqs: Iterable[int]) -> list[SeqRange]:
    """The maximal runs of consecutive numbers among `seqs`, ascending."""
    found: list[SeqRange] = []
    for seq in sorted(set(seqs)):
        if found and found[-1].last + 1 == seq:
            found[-1] = SeqRange(found[-1].first, seq)
        else:
            found.append(SeqRange(seq, seq))
    return found
