"""The machines of one job seen as one: pure rules, no calls.

A job runs while all of its machines do. It is over when one of them has ended badly or is gone: then the others are to be stopped,
and nobody's silence keeps that from counting. A machine that ends well while others run is normal for its last seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from tuneplane_node.wire import ContainerSeen
from tuneplane_server.domain.classify import Exit
from tuneplane_server.domain.members import MemberEnd
from tuneplane_server.executors.port import Observation

type MemberState = Literal["created", "running", "ended", "absent", "lost", "unknown"]
_ALIVE, _GONE = ("created", "running"), ("absent", "lost")


@dataclass(frozen=True)
class Member:
    """One machine of a job as it was seen. `where`: its container, empty when there is none. `unknown`: nobody could be asked;
    `lost`: its node was given up. `detail`: why, in words for people."""

    rank: int
    node: str
    state: MemberState
    where: str = ""
    exit: Exit = Exit()  # noqa: RUF009 - it is frozen
    started_at: datetime | None = None
    finished_at: datetime | None = None
    detail: str = ""
    output: str = ""

    @property
    def alive(self) -> bool:
        return self.state in _ALIVE

    @property
    def over(self) -> bool:
        return self.state == "ended" or self.state in _GONE

    @property
    def failed(self) -> bool:
        """It ended in a way after which the job cannot succeed any more."""
        return self.state in _GONE or (self.state == "ended" and self.exit.exit_code != 0)


def member_of(rank: int, node: str, found: ContainerSeen | None) -> Member:
    """`found`: the container of that rank among what the node said it has; None when it is not among them."""
    if found is None:
        return Member(rank, node, "absent", exit=Exit(absent=True))
    seen = found.observed
    if seen.state == "unknown":
        return Member(rank, node, "unknown", found.handle, detail=seen.detail)
    if seen.state == "absent":
        return Member(rank, node, "absent", exit=Exit(absent=True), detail=seen.detail)
    times = (_aware(seen.started_at), _aware(seen.finished_at))
    if seen.state == "exited":
        end = Exit(False, seen.exit_code, seen.signal, bool(seen.oom_killed))
        return Member(rank, node, "ended", found.handle, end, *times, seen.detail)
    state: MemberState = "created" if seen.state == "created" else "running"
    return Member(rank, node, state, found.handle, Exit(), *times, seen.detail)


def lost_member(rank: int, node: str, why: str) -> Member:
    return Member(rank, node, "lost", exit=Exit(absent=True, cause="node-lost", detail=why), detail=why)


def with_output(member: Member, output: str) -> Member:
    return replace(member, output=output)


def to_stop(members: Sequence[Member], *, lingers: bool) -> list[Member]:
    """Those that run on although the job is over. `lingers`: the first machine has ended well, and that a while ago."""
    broken = any(member.failed for member in members)
    done = lingers and any(member.rank == 0 and member.over for member in members)
    return [member for member in members if member.alive] if broken or done else []


def first_is_done(members: Sequence[Member]) -> bool:
    """Whether the first machine has ended well while others run."""
    done = any(member.rank == 0 and member.over and not member.failed for member in members)
    return done and any(member.alive for member in members)


def observation_of(members: Sequence[Member]) -> Observation:
    """One word on all. `members`: at least one, by rank."""
    ended = [member for member in members if member.over]
    failed = next((member for member in ended if member.failed), None)
    unknown = next((member for member in members if member.state == "unknown"), None)
    ends = () if len(members) == 1 else tuple(_end(member) for member in ended)
    if unknown is not None and failed is None:
        return Observation("unknown", detail=_placed(unknown, members), members=ends)
    alive = [member for member in members if member.alive]
    started = min((member.started_at for member in members if member.started_at is not None), default=None)
    if alive:
        about = failed or alive[0]
        return Observation(
            "present",
            running=True,
            started=all(member.state != "created" for member in members),
            started_at=started,
            detail=_placed(about, members) if about.detail else "",
            members=ends,
        )
    last = failed or ended[0]
    about = unknown or last
    return Observation(
        "absent" if all(member.state in _GONE for member in members) else "present",
        exit=last.exit,
        started_at=started,
        detail=_placed(about, members) if about.detail else "",
        output=last.output,
        members=ends,
    )


def _end(member: Member) -> MemberEnd:
    return MemberEnd(member.rank, member.node, member.exit, member.finished_at, member.output)


def _placed(member: Member, members: Sequence[Member]) -> str:
    """Whose words these are, where that is a question."""
    if len(members) == 1:
        return f"{member.node}: {member.detail}"
    return f"machine {member.rank} ({member.node}): {member.detail}"


def _aware(time: datetime | None) -> datetime | None:
    return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time
