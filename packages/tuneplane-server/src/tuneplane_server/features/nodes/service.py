"""Nodes: they announce themselves, administrators cordon, drain and remove them, and what was given up on one is fenced off."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane.i18n import _, ngettext
from tuneplane_node.wire import AnnounceAnswer, Announcement, AnswerProblem
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.nodes import ANNOUNCE_SECONDS, UNHEARD_AFTER, NodeHealth, NodeState
from tuneplane_server.features.audit.budget import AuditBudget
from tuneplane_server.features.audit.service import AuditEntry, AuditService
from tuneplane_server.features.nodes import repo
from tuneplane_server.features.nodes.building import NodeBuilder
from tuneplane_server.features.nodes.heard import Heard, Stranger
from tuneplane_server.features.nodes.joining import SYSTEM, Joining, check_announcement
from tuneplane_server.features.nodes.known import KnownNodes, Snapshot, Told
from tuneplane_server.features.nodes.node import Fence, Node, NodeProblem
from tuneplane_server.features.nodes.tables import NodeRow
from tuneplane_server.features.nodes.texts import NODE_REMOVED, NOT_AGENT, problem_hint, problem_text
from tuneplane_server.features.nodes.visits import Proof, Visit, VisitWriter, is_new
from tuneplane_server.wakeups import Wakeups
from tuneplane_server.web.problems import ProblemError, not_found, refused

if TYPE_CHECKING:
    from tuneplane_server.features.hardware.service import HardwareService

FORGET_REMOVED_AFTER = timedelta(days=30)
SHOWN_RUNS = 10


@dataclass(frozen=True)
class NodeRules:
    """`used`: this console runs jobs on nodes. `lost_after`: None, a silent node is never given up. `pinned_images`: what the
    nodes' cleaning leaves alone.
    """

    used: bool
    lost_after: timedelta | None
    pinned_images: Callable[[], Awaitable[tuple[str, ...]]]


class NodesService:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        audit: AuditService,
        hardware: Callable[[], HardwareService],
        wakeups: Wakeups,
        rules: NodeRules,
    ) -> None:
        self._database, self._clock, self._audit, self._wakeups = database, clock, audit, wakeups
        self._hardware, self._rules = hardware, rules
        self._known, self._heard = KnownNodes(database, clock), Heard()
        self._builder = NodeBuilder(rules.lost_after)
        self._joining = Joining(database, clock, audit, hardware)
        self._visits = VisitWriter(database, clock, audit)
        self._refusals = AuditBudget()

    # --- nodes speak ----------------------------------------------------------------------------------------------

    async def announce(self, announcement: Announcement, from_address: str) -> AnnounceAnswer:
        """A node says that it is there; what it is to know comes back. Costs no write while nothing about it is new.

        Raises `request-invalid` for an announcement that makes no sense.
        """
        check_announcement(announcement)
        name, now = announcement.hello.name, self._clock.now()
        if not self._rules.used:
            return await self._answer(name, "refused", NodeProblem(NOT_AGENT))
        known = (await self._known.look()).nodes.get(name)
        if known is None or known.told != Told.of(announcement):
            heard = None if (word := self._heard.word(name)) is None else word.at
            taken = await self._joining.write(announcement, from_address, heard)
            if taken is not None:
                await self._refuse_stranger(announcement, taken, from_address)
                return await self._answer(name, "refused", taken)
            await self._changed(name)
        if (last := self.heard(name)) is None or now - last >= UNHEARD_AFTER:
            self._wakeups.notify("joiner")  # it is back: whoever waits to call it need not wait any longer
        self._heard.note(name, now, announcement)
        self._heard.forget_stranger(announcement.hello.node_id, announcement.hello.boot_id)
        await self._write_heard(now)
        return await self._answer_for(await self._required(name))

    def heard(self, name: str) -> datetime | None:
        """When this console heard of it last; None: not since it started."""
        word = self._heard.word(name)
        return None if word is None else word.at

    def strangers(self) -> Sequence[Stranger]:
        """Machines that announce themselves now under a name that another one has."""
        return self._heard.strangers(self._clock.now())

    async def _refuse_stranger(self, announcement: Announcement, problem: NodeProblem, from_address: str) -> None:
        hello = announcement.hello
        new = self._heard.note_stranger(
            Stranger(hello.name, hello.node_id, announcement.address, self._clock.now(), problem, hello.boot_id)
        )
        # Whoever has the token can be a new stranger each time.
        if new and self._refusals.take():
            data = {"code": problem.code, "node_id": hello.node_id, "taken_by": str(problem.values["taken_id"])}
            await self._audit.record_alone(AuditEntry(SYSTEM, "node.refuse", hello.name, from_address, data))

    async def _write_heard(self, now: datetime) -> None:
        heard = self._heard.to_write(now)
        if not heard:
            return
        try:
            async with self._database.begin() as session:
                await repo.note_heard(session, heard)
        except BaseException:
            self._heard.not_written(heard)
            raise

    async def _answer_for(self, node: Node) -> AnnounceAnswer:
        if node.state is NodeState.REMOVED:
            return await self._answer(node.name, "removed", NodeProblem(NODE_REMOVED, {"name": node.name}))
        return await self._answer(
            node.name, "refused" if node.health is NodeHealth.REFUSED else node.state.value, node.problem
        )

    async def _answer(self, name: str, state: str, problem: NodeProblem | None) -> AnnounceAnswer:
        said = None
        if problem is not None:
            said = AnswerProblem(problem.code, problem_text(problem), problem_hint(problem))
        return AnnounceAnswer(name, state, said, float(ANNOUNCE_SECONDS), await self._rules.pinned_images())  # ty: ignore[invalid-argument-type]

    # --- looking --------------------------------------------------------------------------------------------------

    async def list(self) -> Sequence[Node]:
        """By name, without those that were removed, unless they still announce themselves. At most a second old."""
        return [node for node in await self._all() if node.state is not NodeState.REMOVED or node.heard]

    async def get(self, name: str) -> Node | None:
        """Removed ones too."""
        seen = await self._known.look()
        return self._build(seen, name) if name in seen.nodes else None

    async def counts(self) -> dict[str, int]:
        """Health -> how many nodes."""
        found = dict.fromkeys(NodeHealth, 0)
        for node in await self.list():
            if node.state is not NodeState.REMOVED:
                found[node.health] += 1
        return {health.value: count for health, count in found.items()}

    async def _all(self) -> Sequence[Node]:
        seen = await self._known.look()
        return [self._build(seen, name) for name in sorted(seen.nodes)]

    async def _required(self, name: str) -> Node:
        node = await self.get(name)
        if node is None:
            raise _unknown(name)
        return node

    def _build(self, seen: Snapshot, name: str) -> Node:
        return self._builder.build(seen, name, self._heard.word(name), self._clock.now())

    # --- administrators -------------------------------------------------------------------------------------------

    async def cordon(self, name: str, by: str, address: str = "") -> Node:
        """Nothing new begins there."""
        return await self._set_state(name, NodeState.CORDONED, AuditEntry(by, "node.cordon", name, address))

    async def drain(self, name: str, by: str, address: str = "") -> Node:
        """Nothing new begins there, and somebody waits for what runs to end."""
        return await self._set_state(name, NodeState.DRAINING, AuditEntry(by, "node.drain", name, address))

    async def uncordon(self, name: str, by: str, address: str = "") -> Node:
        """It is used again; one that was removed joins again."""
        return await self._set_state(name, NodeState.READY, AuditEntry(by, "node.uncordon", name, address))

    async def _set_state(self, name: str, state: NodeState, entry: AuditEntry) -> Node:
        async with self._database.begin() as session:
            row = await _locked(session, name)
            if row.state == NodeState.REMOVED and state is not NodeState.READY:
                raise refused(
                    "conflict",
                    _("the node {name} was removed").format(name=name),
                    _("tp admin node uncordon {name} takes it back first").format(name=name),
                )
            if row.state != state:
                if row.state == NodeState.REMOVED:
                    row.proved_start = ""  # who knows what was mounted there meanwhile
                self._write_state(row, state, entry.actor)
                self._audit.record(session, entry)
        await self._changed(name)
        return await self._required(name)

    async def remove(self, name: str, by: str, address: str = "", *, force: bool = False) -> Node:
        """Nothing of it is used or shown any more. Refused while runs hold something there; with `force` they are given up there
        and fenced off, so that what may still run is ended should the machine come back.
        """
        async with self._database.begin() as session:
            row = await _locked(session, name)
            held = await self._hardware().held(session)
            runs = [item for item in held if any(hold.node == name for hold in item.holds)]
            if runs and not force:
                raise _busy(name, [item.job_id for item in runs])
            if row.state != NodeState.REMOVED:
                for item in runs:
                    await self._add_fence(session, row, item.job_id, item.attempt)
                self._write_state(row, NodeState.REMOVED, by)
                data = {"forced": force, "runs": [item.job_id for item in runs][:100]}
                self._audit.record(session, AuditEntry(by, "node.remove", name, address, data))
        await self._changed(name)
        return await self._required(name)

    async def end_left(self, name: str, job_id: str, attempt: int, by: str, address: str = "") -> Node:
        """An attempt that runs there under a node id of before is given up, so that the joiner ends it. `conflict` while it holds
        cards or processors by the ledger: then it is no leftover.
        """
        node = await self._required(name)
        instance = next(
            (left.instance for left in node.strangers if (left.job, left.attempt) == (job_id, attempt)), None
        )
        if instance is None:
            raise not_found(
                _("nothing of {run} (attempt {attempt}) is left on {name}").format(
                    run=job_id[:40], attempt=attempt, name=name
                ),
                _("tp admin node show {name} lists what is left there").format(name=name),
            )
        async with self._database.begin() as session:
            row = await _locked(session, name)
            if any((item.job_id, item.attempt) == (job_id, attempt) for item in await self._hardware().held(session)):
                raise refused(
                    "conflict",
                    _("{run} still holds what it was given: it is no leftover").format(run=job_id),
                    _("cancel it first: tp job cancel {run}").format(run=job_id),
                )
            data = {"job": job_id, "attempt": attempt, "node_id": instance}
            self._audit.record(session, AuditEntry(by, "node.end-left", name, address, data))
            await self._add_fence(session, row, job_id, attempt, instance)
        await self._changed(name)
        return await self._required(name)

    def _write_state(self, row: NodeRow, state: NodeState, by: str) -> None:
        row.state, row.state_by, row.state_at = state.value, by[:80], self._clock.now()
        row.version += 1

    # --- the console speaks with nodes ----------------------------------------------------------------------------

    async def proved(self, name: str, start: str, problem: NodeProblem | None) -> None:
        """The storage root of the daemon that began at `start` is the console's, or why it is not."""
        await self.visited([Visit(name, called=False, proof=Proof(start, problem))])

    async def called(self, name: str, problem: NodeProblem | None) -> None:
        """A call of the console reached the node, or why not. Written only when that is new."""
        await self.visited([Visit(name, problem=problem)])

    async def visited(self, visits: Sequence[Visit]) -> None:
        """What came of calls to these nodes, each named once; all that is new of it in one transaction."""
        known, now = (await self._known.look()).nodes, self._clock.now()
        visits = [visit for visit in visits if visit.name in known]
        for visit in visits:
            if visit.called and visit.problem is None:
                self._heard.note(visit.name, now)
        written = [visit for visit in visits if is_new(visit, known[visit.name])]
        if written:
            news = await self._visits.write(written)
            await self._changed(*(visit.name for visit in written), news=news)

    # --- fences ---------------------------------------------------------------------------------------------------

    async def fence(self, name: str, job_id: str, attempt: int) -> None:
        """The attempt is given up on the node: it is not used until it has proved that nothing of it is left. May be repeated.
        A node that nobody knows any more has nothing to fence.
        """
        async with self._database.begin() as session:
            row = await repo.get(session, name)
            if row is not None:
                await self._add_fence(session, row, job_id, attempt)
        await self._changed(name)

    async def _add_fence(
        self, session: AsyncSession, row: NodeRow, job_id: str, attempt: int, node_id: str = ""
    ) -> None:
        values = {"node": row.name, "job_id": job_id, "attempt": attempt, "node_id": node_id or row.node_id}
        if await repo.add_fence(session, values | {"created_at": self._clock.now()}):
            data = {"job": job_id, "attempt": attempt}
            self._audit.record(session, AuditEntry(SYSTEM, "node.fence", row.name, data=data))

    async def unfence(self, name: str, job_id: str, attempt: int) -> None:
        """It has proved that nothing of the attempt is left."""
        async with self._database.begin() as session:
            if await repo.remove_fence(session, name, job_id, attempt):
                data = {"job": job_id, "attempt": attempt}
                self._audit.record(session, AuditEntry(SYSTEM, "node.unfence", name, data=data))
        await self._changed(name)

    async def fences(self, name: str | None = None) -> Sequence[Fence]:
        """Open ones, of one node or of all, the oldest first; also those of machines that have lost their name to another."""
        found = (await self._known.look()).fences
        if name is not None:
            return found.get(name, ())
        return [fence for fences in found.values() for fence in fences]

    # --- tidying --------------------------------------------------------------------------------------------------

    async def forget_removed(self) -> None:
        """Rows of nodes that were removed and have been silent for long."""
        async with self._database.begin() as session:
            gone = await repo.forget_removed(session, self._clock.now() - FORGET_REMOVED_AFTER)
        if gone:
            await self._changed(*gone)
        self._heard.keep_only(set((await self._known.look()).nodes))

    async def _changed(self, *names: str, news: bool = True) -> None:
        """`news`: they may get work now, or no more."""
        await self._known.refresh(names)
        if not news:
            return
        self._hardware().look_again()
        self._wakeups.notify("joiner", "placer")


async def _locked(session: AsyncSession, name: str) -> NodeRow:
    row = await repo.get(session, name)
    if row is None:
        raise _unknown(name)
    return row


def _unknown(name: str) -> ProblemError:
    return not_found(_("there is no node {name}").format(name=name[:80]), _("tp admin node ls lists them"))


def _busy(name: str, runs: Sequence[str]) -> ProblemError:
    text = ngettext(
        "{count} run still holds cards or processors of {name}: {runs}",
        "{count} runs still hold cards or processors of {name}: {runs}",
        len(runs),
    )
    shown = ", ".join(runs[:SHOWN_RUNS]) + (", …" if len(runs) > SHOWN_RUNS else "")
    return refused(
        "conflict",
        text.format(count=len(runs), name=name, runs=shown),
        _("drain it and wait for them to end, cancel them, or remove it by force: they are given up there then"),
        more={"runs": list(runs)},
    )
