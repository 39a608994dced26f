"""Artifacts of runs: registers what an attempt left in its out dir, lists it, opens it, completes its digests.

Failed and cancelled attempts are registered like the others. Digests that the runner had no time for are made here, after
the cards are free.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import structlog
from sqlalchemy import Select
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane.adapters.export import EXPORTS, RECORD
from tuneplane.contract.names import is_run_id
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.checkpoints import FoundCheckpoint
from tuneplane_server.features.artifacts import repo
from tuneplane_server.features.artifacts.files import FileFacts, FileGoneError, PathEscapeError, open_inside, sha256_of
from tuneplane_server.features.artifacts.indexing import FoundIndex, read_index
from tuneplane_server.features.artifacts.problem_texts import problem_text
from tuneplane_server.features.artifacts.tables import ArtifactSetRow
from tuneplane_server.storage.layout import StorageRoot

log = structlog.get_logger(__name__)

HASHED_AT_ONCE = 100


@dataclass(frozen=True)
class FileEntry:
    attempt: int
    path: str
    size: int
    sha256: str | None


@dataclass(frozen=True)
class CheckpointEntry:
    """`size`: bytes of all its files."""

    attempt: int
    path: str
    step: int
    complete: bool
    problem: str | None
    size: int


@dataclass(frozen=True)
class ExportEntry:
    """A finished export. `files`, `size`: how many, and their bytes."""

    attempt: int
    name: str
    path: str
    files: int
    size: int


@dataclass(frozen=True)
class Listing:
    """`out_dir`: of the newest registered attempt. `truncated`: there is more than is listed."""

    files: list[FileEntry]
    checkpoints: list[CheckpointEntry]
    exports: list[ExportEntry]
    out_dir: str | None
    truncated: bool


@dataclass(frozen=True)
class OpenFile:
    """`descriptor` is the caller's to close. `sha256` None when unknown or when the file is not the one that was hashed."""

    descriptor: int
    facts: FileFacts
    sha256: str | None


class ArtifactService:
    def __init__(self, database: Database, clock: Clock, storage: StorageRoot) -> None:
        self._database, self._clock, self._storage = database, clock, storage
        self._hashing = asyncio.Semaphore(1)

    async def bytes_of(self, session: AsyncSession, runs: Select[str]) -> int:
        """Bytes of the registered files of all these runs, in the running transaction."""
        return await repo.bytes_of(session, runs)

    async def register(self, job_id: str, attempt: int, out_dir: Path | None = None) -> None:
        """Read or make the index of an ended attempt; may be repeated, digests made meanwhile are kept.

        `out_dir`: default where the storage root has it. Raises `OSError` when the storage cannot be asked.
        """
        place = out_dir or await asyncio.to_thread(self._out_dir, job_id, attempt)
        if place is None:
            return  # nothing of it was ever started
        index = await asyncio.to_thread(read_index, place, job_id, attempt)
        if index.skipped:
            log.warning("artifacts with unusable names are left out", job=job_id, attempt=attempt, count=index.skipped)
        row = ArtifactSetRow(
            job_id=job_id,
            attempt=attempt,
            out_dir=str(place),
            source=index.source,
            truncated=index.truncated,
            skipped=index.skipped,
            registered_at=self._clock.now(),
        )
        async with self._database.begin() as session:
            known = await repo.known_digests(session, job_id, attempt)
            await repo.replace(session, row, _file_rows(job_id, attempt, index, known), _points(job_id, attempt, index))

    async def checkpoints(self, job_id: str) -> list[FoundCheckpoint]:
        """Of every attempt that is registered."""
        async with self._database.session() as session:
            rows = await repo.checkpoints(session, job_id)
        return [FoundCheckpoint(row.attempt, row.path, row.step, row.complete, row.problem) for row in rows]

    async def listing(self, job_id: str) -> Listing:
        async with self._database.session() as session:
            sets = await repo.sets(session, job_id)
            files = await repo.files(session, job_id)
            points = await repo.checkpoints(session, job_id)
        sizes = _sizes(files, {(row.attempt, row.path) for row in points})
        return Listing(
            [FileEntry(*file) for file in files],
            [
                CheckpointEntry(
                    r.attempt, r.path, r.step, r.complete, problem_text(r.problem), sizes[r.attempt, r.path]
                )
                for r in points
            ],
            _exports(files),
            sets[-1].out_dir if sets else None,
            any(row.truncated for row in sets),
        )

    async def open(self, job_id: str, attempt: int | None, path: str) -> OpenFile:
        """A registered file. `attempt` None: of the newest that has it. Raises `FileGoneError` or `PathEscapeError`."""
        async with self._database.session() as session:
            found = await repo.find_file(session, job_id, attempt, path)
        if found is None:
            raise FileGoneError(path)
        row, out_dir = found
        descriptor = await asyncio.to_thread(open_inside, Path(out_dir), path)
        facts = FileFacts.of(descriptor)
        return OpenFile(descriptor, facts, row.sha256 if facts.size == row.size else None)

    async def complete_hashes(self, job_id: str, attempt: int | None = None) -> int:
        """Make the digests that are missing, one file at a time; how many files were done. May be cancelled and repeated."""
        done = 0
        async with self._hashing:
            while True:
                async with self._database.session() as session:
                    todo = await repo.unhashed(session, job_id, attempt, HASHED_AT_ONCE)
                if not todo:
                    return done
                for of_attempt, path, out_dir in todo:
                    values = await _digest(Path(out_dir), path)
                    async with self._database.begin() as session:
                        await repo.write_file(session, job_id, of_attempt, path, values)
                    done += 1

    async def unhashed(self, job_id: str, attempt: int | None = None) -> int:
        """How many registered files wait for their digest."""
        async with self._database.session() as session:
            return await repo.count_unhashed(session, job_id, attempt)

    async def forget(self, job_id: str) -> None:
        """Delete the index of a run; the files are not touched."""
        async with self._database.begin() as session:
            await repo.forget(session, job_id)

    def _out_dir(self, job_id: str, attempt: int) -> Path | None:
        """Owner and project are directories of the storage root; a run id is unique below all of them."""
        if not is_run_id(job_id) or attempt < 1:
            return None
        found = (self._storage.root / "projects").glob(f"*/*/jobs/{job_id}/attempts/{attempt}/out")
        return next((path for path in found if path.is_dir()), None)


async def _digest(out_dir: Path, path: str) -> dict[str, Any]:
    """The columns to write for a file: its digest with the size it has now, or why there is none."""
    stop = threading.Event()
    try:
        result = await asyncio.to_thread(sha256_of, out_dir, path, stop)
    except asyncio.CancelledError:
        stop.set()
        raise
    except FileGoneError:
        return {"problem": "missing"}
    except PathEscapeError:
        return {"problem": "link"}
    except PermissionError:
        return {"problem": "unreadable"}
    if result is None:
        return {"problem": "changing"}
    facts, digest = result
    return {"size": facts.size, "sha256": digest}


def _file_rows(job_id: str, attempt: int, index: FoundIndex, known: dict[str, tuple[int, str]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for file in index.files:
        size, digest = known.get(file.path, (-1, None))
        rows.append(
            {
                "job_id": job_id,
                "attempt": attempt,
                "path": file.path,
                "size": file.size,
                "sha256": file.sha256 or (digest if size == file.size else None),
                "problem": None,
            }
        )
    return rows


def _points(job_id: str, attempt: int, index: FoundIndex) -> list[dict[str, Any]]:
    return [
        {
            "job_id": job_id,
            "attempt": attempt,
            "path": one.path,
            "step": one.step,
            "complete": one.complete,
            "problem": None if one.problem is None else one.problem.replace("\0", "\ufffd")[:1000],
        }
        for one in index.checkpoints
    ]


def _exports(files: list[tuple[int, str, int, str | None]]) -> list[ExportEntry]:
    """The directories that say of themselves that they are whole."""
    whole = {(attempt, path.removesuffix(f"/{RECORD}")) for attempt, path, _, _ in files if path.endswith(f"/{RECORD}")}
    places = sorted(place for place in whole if PurePosixPath(place[1]).parent == PurePosixPath(EXPORTS))
    found: list[ExportEntry] = []
    for attempt, path in places:
        sizes = [size for n, name, size, _ in files if n == attempt and name.startswith(f"{path}/")]
        found.append(ExportEntry(attempt, path.removeprefix(f"{EXPORTS}/"), path, len(sizes), sum(sizes)))
    return found


def _sizes(
    files: list[tuple[int, str, int, str | None]], wanted: set[tuple[int, str]]
) -> defaultdict[tuple[int, str], int]:
    """Bytes below each wanted directory."""
    sizes: defaultdict[tuple[int, str], int] = defaultdict(int)
    for attempt, path, size, _digest_of in files:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            key = (attempt, "/".join(parts[:depth]))
            if key in wanted:
                sizes[key] += size
    return sizes
