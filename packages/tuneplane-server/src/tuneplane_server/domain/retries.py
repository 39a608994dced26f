"""Whether a further attempt is made, and how long the run rests before it.

A reason that a further attempt cannot help ends the run; so does a class whose limit is used up, a run that has had
`MOST_ATTEMPTS`, and one that ends for the same reason again and again without having come any further.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

from tuneplane_server.domain.phases import Phase, Verdict
from tuneplane_server.domain.reasons import REASONS

# Whatever the limits of the classes add up to.
MOST_ATTEMPTS = 25
# So many ends in a row for one reason and without progress are no accident any more. Machines and networks are given more time
# to recover than a mistake is.
SAME_ENDS = {"infra": 5}
SAME_ENDS_ELSE = 3
# A run that made room for another one did not fail, however often it has to.
_NO_FAULT = frozenset({"preempted"})

REST_FIRST, REST_MOST = timedelta(seconds=5), timedelta(minutes=15)
JITTER = 0.2  # of the rest, more or less: runs that ended together do not come back together


@dataclass(frozen=True)
class Ended:
    """How an attempt ended. `last_step`: the last one it reported, None when it reported none; `checkpoint`: the step of its
    newest complete checkpoint, None when it left none.
    """

    reason: str
    last_step: int | None = None
    checkpoint: int | None = None


@dataclass(frozen=True)
class Again:
    """A further attempt is made, after a rest."""

    rest: timedelta


@dataclass(frozen=True)
class Enough:
    """None is made. `repeated`: so many ends for the same reason without progress; `attempts`: the ceiling; else 0."""

    repeated: int = 0
    attempts: int = 0


def decide(verdict: Verdict, ends: Sequence[Ended], limits: Mapping[str, int], job_id: str) -> Again | Enough:
    """`ends`: of all attempts that failed, in order, the one that `verdict` is of last; `limits`: class -> further attempts."""
    earlier = [end.reason for end in ends[:-1]]
    if not may_retry(verdict, earlier, limits):
        return Enough()
    assert verdict.reason is not None
    code = verdict.reason.code
    repeated = ends_without_progress(ends)
    if code not in _NO_FAULT and repeated >= SAME_ENDS.get(REASONS[code].class_, SAME_ENDS_ELSE):
        return Enough(repeated=repeated)
    if len(ends) >= MOST_ATTEMPTS:
        return Enough(attempts=len(ends))
    return Again(rest_before(REASONS[code].class_, _used(code, earlier), job_id))


def may_retry(verdict: Verdict, earlier_reasons: Iterable[str], limits: Mapping[str, int]) -> bool:
    """`earlier_reasons`: codes of the attempts before this one; `limits`: class -> further attempts (`spec.limits.retries`)."""
    if verdict.phase is Phase.SUCCEEDED or verdict.reason is None:
        return False
    entry = REASONS[verdict.reason.code]
    return entry.retry and _used(entry.code, earlier_reasons) < limits.get(entry.class_, 0)


def rest_before(class_: str, used: int, job_id: str) -> timedelta:
    """How long a run rests before its next attempt. `used`: further attempts it has had for reasons of this class.

    Nothing is mended by waiting where a policy ended the attempt (its time limit, a more urgent run): it goes on at once.
    Else the rest doubles each time, with a jitter that is the job's own.
    """
    if class_ == "policy":
        return timedelta()
    rest = min(REST_MOST, REST_FIRST * 2 ** min(used, 16))
    digest = hashlib.sha256(f"{job_id}/{used}".encode()).digest()
    share = int.from_bytes(digest[:4]) / 2**32  # 0 up to 1
    return rest * (1 - JITTER + 2 * JITTER * share)


def ends_without_progress(ends: Sequence[Ended]) -> int:
    """How many ends at the end of the list are alike: the same reason at the same step, and no checkpoint that is newer than
    what was there before. The first of them is counted whatever it achieved.
    """
    best = [-1]  # the newest checkpoint before each attempt
    for end in ends:
        best.append(max(best[-1], -1 if end.checkpoint is None else end.checkpoint))
    alike = [
        (later.reason, later.last_step) == (earlier.reason, earlier.last_step) and best[index + 2] == best[index + 1]
        for index, (earlier, later) in enumerate(pairwise(ends))
    ]
    count = 1
    for same in reversed(alike):
        if not same:
            break
        count += 1
    return count


def _used(code: str, earlier_reasons: Iterable[str]) -> int:
    class_ = REASONS[code].class_
    return sum(1 for earlier in earlier_reasons if earlier in REASONS and REASONS[earlier].class_ == class_)
