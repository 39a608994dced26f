"""Who joins under which name: an announcement that tells something new becomes the node's row, or is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane.i18n import _
from tuneplane_node.wire import Announcement, to_json
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.nodes import STARTED_AGAIN_AFTER, UNHEARD_AFTER, NodeState
from tuneplane_server.features.audit.budget import AuditBudget
from tuneplane_server.features.audit.service import AuditEntry, AuditService
from tuneplane_server.features.nodes import repo
from tuneplane_server.features.nodes.node import NodeProblem
from tuneplane_server.features.nodes.tables import NodeRow
from tuneplane_server.features.nodes.texts import NAME_TAKEN, NODE_CLONED, NODE_RENAMED
from tuneplane_server.web.problems import ProblemError, refused

if TYPE_CHECKING:
    from tuneplane_server.features.hardware.service import HardwareService

SYSTEM = "system:nodes"
MAX_NAME, MAX_ID, MAX_ADDRESS, MAX_TEXT = 63, 64, 500, 500
MAX_CARDS, MAX_FINDINGS, MAX_STRANGERS = 1024, 100, 200
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z", re.ASCII)


class Joining:
    def __init__(
        self, database: Database, clock: Clock, audit: AuditService, hardware: Callable[[], HardwareService]
    ) -> None:
        self._database, self._clock, self._audit, self._hardware = database, clock, audit, hardware
        self._begun = clock.now()
        self._changes = AuditBudget()

    async def write(self, announcement: Announcement, from_address: str, heard: datetime | None) -> NodeProblem | None:
        """Make the node's row what it tells now; the problem when the name is another machine's. `heard`: when this console
        last heard of whoever has the name.
        """
        values = _values(announcement, self._clock.now())
        async with self._database.begin() as session:
            others = await repo.other_names(session, announcement.hello.node_id, announcement.hello.name)
            for _look in range(2):
                row = await repo.get(session, announcement.hello.name)
                if (refusal := await self._refusal(session, row, others, announcement, heard)) is not None:
                    return refusal
                if row is not None or await repo.add(session, self._new(values)):
                    break  # else another announcement was first
            else:  # and its row was removed for good in between; it announces itself again in a moment
                return None
            await self._give_up_names(session, others, announcement, from_address)
            if row is None:
                self._record(session, "node.join", announcement, from_address)
            elif row.node_id == announcement.hello.node_id:
                self._update(session, row, values, announcement, from_address)
            else:
                self._replace(row, values)
                self._record(session, "node.replace", announcement, from_address)
            return None

    async def _refusal(
        self,
        session: AsyncSession,
        row: NodeRow | None,
        others: Sequence[NodeRow],
        announcement: Announcement,
        heard: datetime | None,
    ) -> NodeProblem | None:
        """Why the machine may not have the name. `row`: who has it. `others`: names that the same machine had."""
        if row is not None and row.node_id == announcement.hello.node_id:
            if self._is_copied(row, announcement, heard):
                return _cloned(row, announcement, heard)
        elif row is not None and await self._is_kept(session, row, heard):
            return _taken(row, announcement, heard)
        known = await self._known_as(session, others)
        return None if known is None else _renamed(known, announcement)

    def _new(self, values: dict[str, Any]) -> dict[str, Any]:
        now = self._clock.now()
        first = {"state": NodeState.READY.value, "state_by": SYSTEM, "state_at": now, "joined_at": now}
        return values | first | {"proved_at": None, "proved_start": "", "refusal": None, "unreachable": None}

    def _update(
        self, session: AsyncSession, row: NodeRow, values: dict[str, Any], told: Announcement, from_address: str
    ) -> None:
        changed = row.address != told.address or row.hello.get("version") != told.hello.version
        if changed and self._changes.take():
            self._record(session, "node.change", told, from_address)
        if row.address != told.address:
            row.unreachable = None  # that was said of the other address
        for name, value in values.items():
            setattr(row, name, value)
        if row.state == NodeState.REMOVED and row.state_by == SYSTEM:  # it has its name of before again
            row.state, row.state_at, row.proved_start = NodeState.READY.value, self._clock.now(), ""
        row.version += 1

    def _replace(self, row: NodeRow, values: dict[str, Any]) -> None:
        """Another machine takes the name: nothing of what was known of the first one holds for it."""
        for name, value in self._new(values).items():
            setattr(row, name, value)
        row.version += 1

    async def _known_as(self, session: AsyncSession, others: Sequence[NodeRow]) -> NodeRow | None:
        """Another name that the machine still has: it is heard of under that one, or may be, or a run is said to be there. Under two
        names its cards would be there twice.
        """
        if not others:
            return None
        held = {hold.node for item in await self._hardware().held(session) for hold in item.holds}
        since = self._clock.now() - UNHEARD_AFTER
        for row in others:
            heard = row.state != NodeState.REMOVED and max(row.last_heard, self._begun) > since
            if heard or row.name in held:
                return row
        return None

    async def _give_up_names(
        self, session: AsyncSession, others: Sequence[NodeRow], told: Announcement, from_address: str
    ) -> None:
        """The machine was renamed: it is not used under the names of before, and ends what was given up under them."""
        for row in others:
            await repo.move_fences(session, row.name, told.hello.node_id, told.hello.name)
            if row.state != NodeState.REMOVED:
                row.state, row.state_by, row.state_at = NodeState.REMOVED.value, SYSTEM, self._clock.now()
                row.version += 1
                data = {"renamed": told.hello.name, "node_id": row.node_id}
                self._audit.record(session, AuditEntry(SYSTEM, "node.remove", row.name, from_address, data))

    async def _is_kept(self, session: AsyncSession, row: NodeRow, heard: datetime | None) -> bool:
        """Whether the name is still the first machine's: it is heard of, or a run is said to be there. Who asked the second one
        about that run would be told that it is gone.
        """
        if row.state != NodeState.REMOVED and self._clock.now() - _newest(row, heard) < UNHEARD_AFTER:
            return True
        held = await self._hardware().held(session)
        return any(hold.node == row.name for item in held for hold in item.holds)

    def _is_copied(self, row: NodeRow, told: Announcement, heard: datetime | None) -> bool:
        """Whether the start of the machine that the row is of is still heard of, or may be: a console that has just begun has heard
        nobody yet.
        """
        known, boot = row.hello.get("boot_id"), told.hello.boot_id
        newest = max(_newest(row, heard), self._begun)
        return bool(known and boot and known != boot) and self._clock.now() - newest < STARTED_AGAIN_AFTER

    def _record(self, session: AsyncSession, action: str, told: Announcement, from_address: str) -> None:
        hello = told.hello
        data = {"address": told.address, "node_id": hello.node_id, "version": hello.version}
        self._audit.record(session, AuditEntry(SYSTEM, action, hello.name, from_address, data))


def check_announcement(announcement: Announcement) -> None:
    """Raises `request-invalid` for what cannot be a node."""
    hello, inventory = announcement.hello, announcement.inventory
    if len(hello.name) > MAX_NAME or _NAME.match(hello.name) is None:
        raise _invalid(
            "hello.name",
            _("“{name}” is no name of a node").format(name=hello.name[:80]),
            _("set TUNEPLANE_NODE_NAME: letters, digits and . _ -, at most 63 of them"),
        )
    if not 0 < len(hello.node_id) <= MAX_ID or _NAME.match(hello.node_id) is None:
        raise _invalid("hello.node_id", _("the node tells no id of its own"))
    if not _is_address(announcement.address):
        raise _invalid(
            "address",
            _("“{address}” is no address at which the console could call the node").format(
                address=announcement.address[:80]
            ),
            _("set TUNEPLANE_NODE_ADDRESS on the node, for example http://10.0.0.2:8643"),
        )
    texts = (hello.version, hello.storage_root, hello.runtime, hello.image_form, hello.boot_id)
    if any(len(text) > MAX_TEXT or "\0" in text for text in texts):
        raise _invalid("hello", _("the announcement is longer than any node's"))
    if (
        len(announcement.strangers) > MAX_STRANGERS
        or len(announcement.findings) > MAX_FINDINGS
        or (inventory is not None and len(inventory.gpus) > MAX_CARDS)
    ):
        raise _invalid("inventory", _("the announcement is longer than any node's"))


def _is_address(text: str) -> bool:
    if len(text) > MAX_ADDRESS or any(character <= " " or character == "\x7f" for character in text):
        return False
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
        )
    except ValueError:
        return False


def _invalid(field: str, text: str, hint: str = "") -> ProblemError:
    return refused("request-invalid", text, hint, field=field)


def _values(announcement: Announcement, now: datetime) -> dict[str, Any]:
    hello = announcement.hello
    return {
        "name": hello.name,
        "node_id": hello.node_id,
        "address": announcement.address,
        "hello": hello.to_json(),
        "inventory": to_json(announcement.inventory) or {},
        "findings": [found.to_json() for found in announcement.findings],
        "last_heard": now,
    }


def _newest(row: NodeRow, heard: datetime | None) -> datetime:
    return row.last_heard if heard is None else max(heard, row.last_heard)


def _taken(row: NodeRow, announcement: Announcement, heard: datetime | None) -> NodeProblem:
    return NodeProblem(NAME_TAKEN, {"name": row.name, "taken_id": row.node_id} | _sides(row, announcement, heard))


def _cloned(row: NodeRow, announcement: Announcement, heard: datetime | None) -> NodeProblem:
    boots = {"taken_boot": row.hello.get("boot_id", "")[:8], "boot": announcement.hello.boot_id[:8]}
    return NodeProblem(
        NODE_CLONED, {"name": row.name, "taken_id": row.node_id} | boots | _sides(row, announcement, heard)
    )


def _renamed(row: NodeRow, announcement: Announcement) -> NodeProblem:
    return NodeProblem(NODE_RENAMED, {"taken": row.name, "taken_id": row.node_id} | _sides(row, announcement, None))


def _sides(row: NodeRow, announcement: Announcement, heard: datetime | None) -> dict[str, Any]:
    return {
        "taken_address": row.address,
        "taken_heard": f"{_newest(row, heard):%Y-%m-%d %H:%M:%S} UTC",
        "address": announcement.address,
        "node_id": announcement.hello.node_id,
    }
