"""How an attempt ended: Slurm's word for the job, and what the batch script left of each machine on the storage root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGKILL, SIGTERM

from tuneplane_server.domain.classify import Exit
from tuneplane_server.domain.members import MemberEnd
from tuneplane_server.executors.port import Observation
from tuneplane_server.executors.slurm import states
from tuneplane_server.executors.slurm.earlier import CLOCKS_APART_SECONDS, begun_at, runner_lives
from tuneplane_server.executors.slurm.intents import KILL_FILE, OVER_FILE, STOP_FILE, read_intent, tail, time_of
from tuneplane_server.executors.slurm.looking import Job
from tuneplane_server.executors.slurm.script import MachineExit, exit_file, output_file, parse_exit
from tuneplane_server.executors.slurm.submitting import OUTPUT_FILE

OUTPUT_TAIL_BYTES = 16 * 1024
MEMBER_TAIL_BYTES = 8 * 1024
NODES_FILE = "nodes"
MISSING_FILE = "gpus-missing"  # why we ended it: an ended job does not always tell any more how many cards it had
EARLY_SECONDS = 60  # Slurm may send its warning so much before it is due
REFUSED_SECONDS = 60  # within which a node refuses a job
LATE_SECONDS = 10  # after its last machine, a job has ended in Slurm as well
_EXIT_BYTES, _MISSING_BYTES, _NODES_BYTES = 64, 200, 256 * 1024


@dataclass(frozen=True)
class Left:
    """What lies in `slurm/`. `exits`, `outputs`: by machine rank. `told`: when we first told it to stop, `killed`: when its grace was
    over, `over`: when it was proved to be over (Unix seconds). `missing`: what we had to say of its cards.
    `warning`: as in the intent. `names`: the machines by rank, as the steps counted them; only of several.
    `begun`: when a start of its batch script took the attempt; `unbegun`: none ever has. `alive`: a runner of it is seen to live."""

    exits: Mapping[int, MachineExit]
    outputs: Mapping[int, str]
    output: str
    told: float | None
    killed: float | None
    over: float | None
    missing: str = ""
    warning: int | None = None
    names: tuple[str, ...] = ()
    begun: float | None = None
    unbegun: bool = False
    alive: bool = False


NOTHING_LEFT = Left({}, {}, "", None, None, None)


def read_left(directory: Path, machines: int) -> Left:
    """Blocks. Raises OSError when the directory cannot be looked into."""
    directory.stat()
    try:
        intent = read_intent(directory)
    except OSError:  # how it ended is told by other files
        intent = None
    exits = {rank: found for rank in range(machines) if (found := _exit_of(directory, rank)) is not None}
    outputs: dict[int, str] = {}
    begun = begun_at(directory)
    if machines > 1:
        outputs = {rank: tail(directory / output_file(rank), MEMBER_TAIL_BYTES) for rank in range(machines)}
    return Left(
        exits,
        outputs,
        tail(directory / OUTPUT_FILE, OUTPUT_TAIL_BYTES),
        time_of(directory, STOP_FILE),
        time_of(directory, KILL_FILE),
        time_of(directory, OVER_FILE),
        tail(directory / MISSING_FILE, _MISSING_BYTES).strip(),
        None if intent is None else intent.warning,
        _names(directory) if machines > 1 else (),
        begun,
        begun is None,
        runner_lives(directory, machines),
    )


def _names(directory: Path) -> tuple[str, ...]:
    """From lines `NODEID NAME ADDRESS`."""
    lines = tail(directory / NODES_FILE, _NODES_BYTES).splitlines()
    return tuple(words[1] for line in lines if len(words := line.split()) > 1)


def _exit_of(directory: Path, rank: int) -> MachineExit | None:
    return parse_exit(tail(directory / exit_file(rank), _EXIT_BYTES))


def ended(job: Job, left: Left, nodes: Sequence[str], gpus: int) -> Observation:
    """Of a job that Slurm says is over. `nodes`: the machines by rank as the plan calls them; `gpus`: asked for on all together."""
    real = _by_rank(states.nodes_of(job), left)
    detail = states.words_of(job).text
    if left.over is not None:
        return Observation("absent", exit=Exit(absent=True), detail=detail)
    own = states.exit_of(job, told=left.told is not None)
    missing = states.missing_gpus(job, gpus) or left.missing
    if missing:
        own = replace(own, cause="gpus-missing", detail=missing)
    elif left.exits and len(left.exits) == len(nodes) and _ended_before(job[0].ended_at, left):
        own = replace(
            own, absent=False, cause=None, detail=""
        )  # it had ended by itself, and Slurm had lost that (overdue.py)
    own = _by_whom(_with_limit(own, job, left), job, left)
    return Observation(
        "present",
        exit=_with_first(own, left),
        started_at=job[0].started_at,
        detail=missing or detail,
        output=left.output,
        members=_members(own, left, real if len(real) == len(nodes) else nodes),
        nodes=real,
    )


def _by_rank(real: tuple[str, ...], left: Left) -> tuple[str, ...]:
    """Slurm's list of them has the batch host first as a rule; the steps know."""
    return left.names if sorted(left.names) == sorted(real) else real


def requeued(job: Job, left: Left) -> Observation:
    end = states.requeued_exit(job)
    return Observation(
        "present",
        exit=end,
        started_at=job[0].started_at,
        detail=end.detail,
        output=left.output,
        nodes=states.nodes_of(job),
    )


def by_its_files(left: Left, nodes: Sequence[str], detail: str) -> Observation | None:
    """Of a job that nobody in Slurm knows any more: as the batch script saw every machine end. None when it did not."""
    if not nodes or len(left.exits) < len(nodes) or left.alive:
        return None
    end = _exit(left.exits[0])
    return Observation("present", exit=end, detail=detail, output=left.output, members=_members(end, left, nodes))


def _with_limit(end: Exit, job: Job, left: Left) -> Exit:
    """One that Slurm told to end some time before its limit, and that did, is FAILED or COMPLETED like any other."""
    leader, first = job[0], left.exits.get(0)
    code = end.exit_code if first is None else first.code
    ran = None if leader.started_at is None or leader.ended_at is None else leader.ended_at - leader.started_at
    limit = leader.time_limit_minutes
    if end.cause or left.told or left.warning is None or ran is None or limit is None:
        return end
    if code not in (0, 128 + SIGTERM) and end.signal != SIGTERM:
        return end
    if ran.total_seconds() < limit * 60 - left.warning - EARLY_SECONDS:
        return end
    detail = f"{states.words_of(job).text}; Slurm told it to end, {left.warning} s before its limit of {limit} min"
    return replace(end, cause="slurm-time-limit", detail=detail)


def _by_whom(end: Exit, job: Job, left: Left) -> Exit:
    """What Slurm ends because a node refuses to start it is CANCELLED like what somebody ends."""
    leader = job[0]
    if end.cause != "slurm-cancelled" or leader.started_at is None or not leader.nodes:
        return end  # of one that waited, Slurm calls the time of its end its start
    ran = None if leader.ended_at is None else leader.ended_at - leader.started_at
    if ran is None or ran.total_seconds() > REFUSED_SECONDS:
        return end
    if left.begun is not None and leader.started_at.timestamp() > left.begun + CLOCKS_APART_SECONDS:
        return replace(end, cause=None, detail="")  # a second start was refused, and the first one was ended with it
    if not left.unbegun:
        return end
    where = ", ".join(leader.nodes)
    detail = f"{states.words_of(job).text} before its script began; unless somebody ended it in Slurm, the log of slurmd on {where} says why"
    return replace(end, cause="launch-failed", detail=detail)


def _ended_before(at: datetime | None, left: Left) -> bool:
    """Whether the last machine was seen to end long before that: whatever Slurm ends a job for, they end afterwards."""
    return at is not None and max(found.ended_at for found in left.exits.values()) + LATE_SECONDS < at.timestamp()


def _with_first(end: Exit, left: Left) -> Exit:
    """The first machine's own exit says more than Slurm's for the script, which is the same at best."""
    first = left.exits.get(0)
    if first is not None:
        own = _exit(first)
        return replace(end, exit_code=own.exit_code, signal=own.signal)
    if left.killed is not None and end.exit_code is None and end.signal in (None, SIGTERM):
        return replace(end, absent=False, signal=int(SIGKILL))
    return end


def _members(end: Exit, left: Left, nodes: Sequence[str]) -> tuple[MemberEnd, ...]:
    """All of them. A machine whose end the script did not see ended as the job did, and nobody knows when."""
    if len(nodes) < 2:
        return ()
    found = []
    for rank, node in enumerate(nodes):
        mine = left.exits.get(rank)
        at = None if mine is None else datetime.fromtimestamp(mine.ended_at, UTC)
        own = end if mine is None else _exit(mine)
        if mine is not None and mine.told:  # for another one's end: it only followed
            own = replace(own, signal=int(SIGTERM))
        found.append(MemberEnd(rank, node, own, at, left.outputs.get(rank, "")))
    return tuple(found)


def _exit(found: MachineExit) -> Exit:
    return Exit(exit_code=found.code, signal=found.code - 128 if 128 < found.code < 192 else None)
