"""Which cards a container was given, until nothing of it holds them any more.

A container that is gone is no proof: a process that hangs in the driver keeps its card's memory, and the next job finds it full. So
the cards of a launch are noted before it happens, and a cleanup is proved when the driver names no process on them that came after
that note. Processes that were there before (a display, somebody's notebook) are none of the job's.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

from tuneplane_node.engine.problems import NodeError
from tuneplane_node.engine.requests import OwnedContainer, RuntimeHandle
from tuneplane_node.engine.sampling.cards import CardsUnreadableError, Holder
from tuneplane_node.engine.supervisor.procfs import ProcessIdentity, boot_id
from tuneplane_node.engine.supervisor.records import read_record, write_record

_TICKS = os.sysconf("SC_CLK_TCK")
_SPOILT = (ValueError, KeyError, TypeError, AttributeError)  # a record of another shape
_PART = ".part"  # what a record is written to first


class HolderReader(Protocol):
    async def holders(self) -> list[Holder]:
        """Every process that has work on a card. Raises `CardsUnreadableError`."""
        ...


@dataclass(frozen=True)
class _Note:
    """`since`: clock ticks since the boot of that id. `ending`: its cleanup has begun."""

    gpus: frozenset[int]
    boot: str
    since: int
    runtime: str
    labels: Mapping[str, str]
    ending: bool


class HeldCards:
    """`root`: directory of the notes, one file a container name, on a local disk."""

    def __init__(self, root: Path, reader: HolderReader) -> None:
        self._root, self._reader = root, reader

    async def note(self, handle: RuntimeHandle, labels: Mapping[str, str], gpus: Sequence[int]) -> None:
        """Before a launch; a second one of the same name changes nothing. Raises NodeError `record-unusable`."""
        await self._ask(self._note, handle, labels, gpus)

    async def begin_end(self, name: str) -> None:
        """Before the container goes: from now on its cards are all that tells of it. Raises NodeError `record-unusable`."""
        await self._ask(self._begin_end, name)

    async def held(self) -> list[OwnedContainer]:
        """What was cleaned up, or is just being, and has not been released. Raises NodeError `record-unusable`."""
        return await self._ask(self._held)

    async def release(self, name: str) -> None:
        """Returns when nothing of what was launched under this name holds its cards, and forgets them. Raises NodeError
        `gpu-held`, `gpu-query-failed`, `record-unusable`: they are to stay held."""
        note = await self._ask(self._read, name)
        if note is None:
            return
        if note.boot == boot_id():
            try:
                holders = await self._reader.holders()
            except CardsUnreadableError as problem:
                raise NodeError("gpu-query-failed", str(problem)) from problem
            ours = [holder for holder in holders if holder.index in note.gpus and not _was_before(holder, note)]
            if ours:
                gpus = ", ".join(map(str, sorted({holder.index for holder in ours})))
                raise NodeError("gpu-held", gpus=gpus, holders=", ".join(map(_shown, ours[:8])))
        await self._ask((self._root / name).unlink, missing_ok=True)

    async def keep_only(self, names: Collection[str], older_than_seconds: float) -> int:
        """Forget notes that old of containers that are not among these; how many."""
        return await self._ask(self._keep_only, names, older_than_seconds)

    def _note(self, handle: RuntimeHandle, labels: Mapping[str, str], gpus: Sequence[int]) -> None:
        if self._read(handle.name) is not None:
            return
        self._root.mkdir(parents=True, exist_ok=True)
        since = int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS)
        self._write(handle.name, _Note(frozenset(gpus), boot_id(), since, handle.runtime, labels, ending=False))

    def _begin_end(self, name: str) -> None:
        note = self._read(name)
        if note is not None and not note.ending:
            self._write(name, replace(note, ending=True))

    def _held(self) -> list[OwnedContainer]:
        found = []
        for path in sorted(self._root.iterdir()) if self._root.is_dir() else ():
            try:
                note = None if path.name.endswith(_PART) else self._read(path.name)
            except _SPOILT:
                continue  # it must not hide the others; asked by name it says that it cannot be read
            if note is not None and note.ending:
                found.append(OwnedContainer(RuntimeHandle(note.runtime, path.name), note.labels))
        return found

    def _write(self, name: str, note: _Note) -> None:
        write_record(self._root / name, {**asdict(note), "gpus": sorted(note.gpus), "labels": dict(note.labels)})

    def _read(self, name: str) -> _Note | None:
        value = read_record(self._root / name)
        if value is None:
            return None
        return _Note(
            frozenset(map(int, value["gpus"])),
            str(value["boot"]),
            int(value["since"]),
            str(value["runtime"]),
            {str(label): str(text) for label, text in value["labels"].items()},
            bool(value["ending"]),
        )

    def _keep_only(self, names: Collection[str], older_than_seconds: float) -> int:
        gone = 0
        for note in self._root.iterdir() if self._root.is_dir() else ():
            if note.name not in names and time.time() - note.stat().st_mtime > older_than_seconds:
                note.unlink(missing_ok=True)
                gone += 1
        return gone

    async def _ask[**P, T](self, look: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """File work off the event loop."""
        try:
            return await asyncio.to_thread(look, *args, **kwargs)
        except (OSError, *_SPOILT) as problem:
            raise NodeError("record-unusable", str(problem), path=self._root) from problem


def _was_before(holder: Holder, note: _Note) -> bool:
    """Whether it was there before the launch; of one that cannot be seen (it is being torn down) that cannot be said."""
    if holder.pid is None:
        return False
    try:
        return ProcessIdentity.of(holder.pid).start_time < note.since
    except ProcessLookupError:
        return False


def _shown(holder: Holder) -> str:
    return f"{holder.name or '?'} ({'?' if holder.pid is None else holder.pid})"
