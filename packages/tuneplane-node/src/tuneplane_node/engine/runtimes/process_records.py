"""The directory that process mode keeps for each job: who it is, whether it lives, how it ended.

Blocking file work only; `process.py` calls it off the event loop. See `supervisor/__main__.py` for the files.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tuneplane_node.engine.problems import NodeError
from tuneplane_node.engine.requests import LaunchRequest, Observed, signal_of
from tuneplane_node.engine.supervisor.procfs import ProcessIdentity, carrying, descendants
from tuneplane_node.engine.supervisor.records import read_record, sync_directory, write_record

# In the environment of the command and so of everything it starts: finds what escaped from the process tree after its
# supervisor was killed.
TOKEN_VARIABLE = "TUNEPLANE_PROCESS_TOKEN"  # noqa: S105 - a mark, not a secret

_NEW, _GONE = ".new-", ".gone-"
_SCRATCH = "tp-"  # short: programs put sockets below TMPDIR, whose paths may have 107 bytes
_ABANDONED_SECONDS = 3600.0


@dataclass(frozen=True)
class Started:
    """Who runs: the command's first process, and the supervisor above it."""

    leader: ProcessIdentity
    supervisor: ProcessIdentity
    started_at: float

    def alive(self) -> bool:
        return self.supervisor.alive() or self.leader.alive()


@dataclass(frozen=True)
class Record:
    """One job's directory, as it was when read. `scratch`: where the job's temporary files are to go, outside of it."""

    path: Path
    labels: Mapping[str, str]
    token: str
    scratch: Path | None = None

    def make_scratch(self) -> bool:
        """False when there can be none; then temporary files go wherever the job puts them, and stay."""
        if self.scratch is None:
            return False
        try:
            self.scratch.mkdir(mode=0o700)
        except FileExistsError:
            return _is_ours(self.scratch)  # an earlier launch made it and died
        except OSError:
            return False
        return True

    def remove_scratch(self) -> None:
        """Best effort. The name is random and was written down before the directory was made: it is nobody else's."""
        if self.scratch is not None and _is_ours(self.scratch):
            shutil.rmtree(self.scratch, ignore_errors=True)

    def started(self) -> Started | None:
        value = read_record(self.path / "started.json")
        if value is None:
            return None
        leader, supervisor = (ProcessIdentity.from_json(value[key]) for key in ("leader", "supervisor"))
        return Started(leader, supervisor, float(value["started_at"]))

    def observe(self) -> Observed:
        """Raises OSError or ValueError when the files cannot be read."""
        ended = self._ended()
        if ended is not None:
            return ended
        started = self.started()
        if started is None:
            # Looked at in this order, a command that could not start never shows as one that did not end.
            return self._ended() or Observed("created")
        started_at = _time(started.started_at)
        if started.supervisor.alive():
            return Observed("running", started_at=started_at)
        # It may have written the end and left between the two looks.
        ended = self._ended()
        if ended is not None:
            return ended
        if self.members(started):
            return Observed("running", started_at=started_at, detail="its supervisor is gone")
        return self._ended() or Observed(
            "exited", started_at=started_at, detail="its supervisor was killed: nobody saw how it ended"
        )

    def members(self, started: Started) -> list[ProcessIdentity]:
        """Every living process of the job, its supervisor not included."""
        roots = [process for process in (started.supervisor, started.leader) if process.alive()]
        below = descendants(process.pid for process in roots)
        if not all(process.alive() for process in roots):  # a pid may have changed hands while we read
            below = []
        found = {process.pid: process for process in [*below, *carrying(TOKEN_VARIABLE, self.token)]}
        if started.leader.alive():
            found[started.leader.pid] = started.leader
        found.pop(started.supervisor.pid, None)
        return list(found.values())

    def roots(self) -> tuple[int, ...]:
        """The pids above everything that the job runs; none when it does not run or its files cannot be read."""
        try:
            started = None if (self.path / "exit.json").exists() else self.started()
        except (OSError, ValueError, KeyError):
            return ()
        if started is None:
            return ()
        return tuple(process.pid for process in (started.supervisor, started.leader) if process.alive())

    def kill_members(self) -> bool:
        """SIGKILL to all; True when there was nobody left and no supervisor either."""
        started = self.started()
        if started is None:
            return True
        members = self.members(started)
        for process in members:
            process.signal(signal.SIGKILL)
        return not members and not started.supervisor.alive()

    def _ended(self) -> Observed | None:
        value = read_record(self.path / "exit.json")
        if value is None:
            return None
        code = int(value["exit_code"])
        number = signal_of(code)
        return Observed(
            "exited",
            exit_code=code,
            signal=number,
            oom_killed=None if number == signal.SIGKILL else False,
            started_at=_time(float(value["started_at"])),
            finished_at=_time(float(value["finished_at"])),
        )


class ProcessRecords:
    """All the records below one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def create(self, request: LaunchRequest, temporary: str = "") -> None:
        """Make the record if there is none of that name. A crash half-way leaves nothing under the name.

        `temporary`: the absolute directory below which the job gets one for its temporary files; empty for none.
        """
        if (self.root / request.name).exists():
            return
        fresh = self.root / f"{_NEW}{request.name}-{secrets.token_hex(8)}"
        try:
            fresh.mkdir(parents=True, mode=0o700)
            value = {
                "labels": dict(request.labels),
                "token": secrets.token_hex(16),
                "created_at": time.time(),
                "scratch": f"{temporary}/{_SCRATCH}{secrets.token_hex(6)}" if temporary.startswith("/") else "",
            }
            write_record(fresh / "request.json", value)
            fresh.rename(self.root / request.name)
        except OSError as problem:
            shutil.rmtree(fresh, ignore_errors=True)
            if not (self.root / request.name).exists():
                raise NodeError("record-unusable", str(problem), path=self.root) from problem
        else:
            sync_directory(self.root)

    def get(self, name: str) -> Record | None:
        """None when there is no such record. OSError and ValueError mean that it cannot be known."""
        value = read_record(self.root / name / "request.json")
        return None if value is None else _record(self.root / name, value)

    def all(self) -> list[Record]:
        """Every record that says whose it is."""
        if not self.root.exists():
            return []
        found = []
        for path in sorted(self.root.iterdir()):
            if path.name.startswith("."):
                self._sweep(path)
                continue
            try:
                record = self.get(path.name)
            except (ValueError, KeyError):
                continue  # a spoilt one must not hide the others; asked by name it is `unknown`
            if record is not None:
                found.append(record)
        return found

    def discard(self, record: Record, seconds: float = 0.0) -> bool:
        """Remove the directory, unless a supervisor still lives after so many seconds. True when it is gone."""
        try:
            lock = os.open(record.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            return not record.path.exists()
        try:
            if not _take(lock, seconds):
                return False
            # The lock is held while the directory goes, so that no supervisor can begin in it.
            doomed = self.root / f"{_GONE}{record.path.name}-{secrets.token_hex(8)}"
            record.path.rename(doomed)
            sync_directory(self.root)
            record.remove_scratch()
            shutil.rmtree(doomed, ignore_errors=True)  # what stays is swept later
        except FileNotFoundError:
            pass  # another one removed it
        finally:
            os.close(lock)
        return not record.path.exists()

    def _sweep(self, path: Path) -> None:
        """What a crash left half made or half removed."""
        try:
            old = time.time() - path.stat().st_mtime > _ABANDONED_SECONDS
        except FileNotFoundError:
            return
        if path.name.startswith(_GONE):
            self._finish_discard(path)
        elif path.name.startswith(_NEW) and old:
            shutil.rmtree(path, ignore_errors=True)

    def _finish_discard(self, doomed: Path) -> None:
        try:
            record = self.get(doomed.name)
        except (ValueError, KeyError):
            record = None
        if record is not None:
            record.remove_scratch()
        shutil.rmtree(doomed, ignore_errors=True)


def read_tail(record: Record, tail_bytes: int) -> bytes:
    """The end of the command's output, over the cut between its two files."""
    text = b""
    for name in ("output.log", "output.log.1"):
        try:
            with (record.path / name).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - (tail_bytes - len(text))))
                text = file.read(tail_bytes - len(text)) + text
        except FileNotFoundError:
            continue
        if len(text) >= tail_bytes:
            break
    return text


def _take(lock: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
        else:
            return True


def _record(path: Path, value: dict[str, Any]) -> Record:
    labels = {str(key): str(text) for key, text in value["labels"].items()}
    scratch = str(value.get("scratch") or "")
    return Record(path, labels, str(value["token"]), Path(scratch) if scratch else None)


def _is_ours(directory: Path) -> bool:
    try:
        found = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
