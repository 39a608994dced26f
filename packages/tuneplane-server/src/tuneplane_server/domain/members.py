"""One verdict over a job on several machines: whose end was the cause, and whose only followed from it.

Rank 0 alone can say that a job succeeded. When one fails, the others lose their connection to it and fail too, often within the
same second and before anybody has looked; who is told to stop after that ends as interrupted. So the reasons are weighed before
the times are compared: machines have clocks of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tuneplane_server.domain.classify import Exit, classify
from tuneplane_server.domain.evidence import QUOTE_CHARS
from tuneplane_server.domain.phases import Reason, StopCause, Verdict

# What a member says when it is another one's end that it met.
_FOLLOWS = frozenset(
    {"communication-timeout", "communication-failed", "rendezvous-failed", "rank-lost", "worker-died", "interrupted"}
)
_NEVER = float("inf")


@dataclass(frozen=True)
class MemberEnd:
    """How the machine `rank` of a job ended. `finished_at`: by the clock of its node, None when nobody saw it.

    `output`: the end of what bootstrap and runner printed themselves.
    """

    rank: int
    node: str
    end: Exit
    finished_at: datetime | None = None
    output: str = ""


def verdict_of(
    members: Sequence[MemberEnd], outcomes: Mapping[int, Mapping[str, Any]], stop_cause: StopCause | None
) -> Verdict:
    """`members`: those that have ended, at least one; `outcomes`: machine rank -> the record its runner wrote.

    The reason's data name rank and node of whose end it is.
    """
    main = outcomes.get(0)
    if main is not None and (main["result"] == "succeeded" or stop_cause is not None):
        return classify(next((member.end for member in members if member.rank == 0), Exit()), main, stop_cause)
    known = [(member, outcomes.get(member.rank)) for member in members]
    judged = [(_of_one(member, outcome, stop_cause), member, outcome) for member, outcome in known]
    verdict, member, _outcome = min(judged, key=lambda item: _order(*item))
    assert verdict.reason is not None
    return verdict if stop_cause is not None else replace(verdict, reason=_with_place(verdict.reason, member))


def follows(verdict: Verdict) -> bool:
    """Whether it says no more than that another machine ended first."""
    return verdict.reason is not None and verdict.reason.code in _FOLLOWS


def _of_one(member: MemberEnd, outcome: Mapping[str, Any] | None, stop_cause: StopCause | None) -> Verdict:
    """Of a member that ended well nothing speaks against the job but that rank 0 left no word of success."""
    if outcome is not None and outcome["result"] == "succeeded":
        return classify(Exit(exit_code=0), None, stop_cause)
    return classify(member.end, outcome, stop_cause, member.output)


def _order(verdict: Verdict, member: MemberEnd, outcome: Mapping[str, Any] | None) -> tuple[int, float, int]:
    """The first of them is the cause. A machine or a container that is gone has no time of its end, and is what others lost."""
    assert verdict.reason is not None
    seen = _NEVER if member.finished_at is None else member.finished_at.timestamp()
    finished = seen if outcome is None else float(outcome["finished_at"])
    if verdict.reason.code in _FOLLOWS:
        return 2, finished, member.rank
    if verdict.reason.code == "no-outcome" and member.rank != 0:
        return 3, finished, member.rank  # it ended well
    return (0 if member.end.absent else 1), finished, member.rank


def _with_place(reason: Reason, member: MemberEnd) -> Reason:
    said = str(reason.data.get("detail", ""))
    place = f"machine {member.rank} ({member.node})"
    detail = f"{place}: {said}" if said else place
    return Reason(
        reason.code, {**reason.data, "rank": member.rank, "node": member.node, "detail": detail[: 2 * QUOTE_CHARS]}
    )
