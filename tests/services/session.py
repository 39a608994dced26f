"""One set of services for one pytest run, shared by its xdist workers, gone when the run is gone.

The controller owns a folder. Whoever needs a service takes that service's file lock; the first one starts it and writes
its record, the others read the record. The controller ends everything at the end of the run, and a guardian process
does the same if the controller is killed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.services.process import ProcessId, ServiceMissingError, stop

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Service:
    """What a starter hands back: the facts tests need, the processes to end, and commands to run before and after."""

    facts: dict[str, Any]
    processes: list[ProcessId] = field(default_factory=list)
    before_stop: list[list[str]] = field(default_factory=list)
    after_stop: list[list[str]] = field(default_factory=list)


class ServiceSession:
    """The folder of one pytest run. `controller` is the pid whose end ends the services."""

    def __init__(self, folder: Path, controller: int) -> None:
        self.folder = folder
        self.controller = controller

    @classmethod
    def create(cls) -> ServiceSession:
        # Short, because Unix socket paths are limited to 107 bytes; open to others, because postgres is not root.
        base = "/tmp" if os.access("/tmp", os.W_OK) else None
        folder = Path(tempfile.mkdtemp(prefix="tp-test-", dir=base))
        folder.chmod(0o711)
        return cls(folder, os.getpid())

    def get(self, name: str, start: Callable[[Path], Service]) -> dict[str, Any]:
        """The facts of a running service; starts it if nobody has. A failure is remembered, not tried again."""
        record = self.folder / f"{name}.json"
        with self._locked(name):
            if not record.exists():
                self._start_guardian()
                _write(record, self._attempt(name, start))
            content = json.loads(record.read_text())
        if "unavailable" in content:
            raise ServiceMissingError(content["unavailable"])
        facts: dict[str, Any] = content["facts"]
        return facts

    def _attempt(self, name: str, start: Callable[[Path], Service]) -> dict[str, Any]:
        home = self.folder / name
        home.mkdir(mode=0o711)
        try:
            return asdict(start(home))
        except ServiceMissingError as problem:
            return {"unavailable": f"{name}: {problem}"}

    def _start_guardian(self) -> None:
        with self._locked("guardian"):
            mark = self.folder / "guardian.pid"
            if mark.exists():
                return
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.services.guardian", str(self.folder), str(self.controller)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            process.returncode = 0  # it outlives us on purpose
            mark.write_text(str(process.pid))

    @contextmanager
    def _locked(self, name: str) -> Generator[None]:
        with (self.folder / f"{name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def own(self, name: str, service: Service) -> Path:
        """Write down how to end something before it is made, for what one test module makes and ends; its folder."""
        self._start_guardian()
        home = self.folder / name
        home.mkdir(mode=0o711)
        _write(self.folder / f"{name}.json", asdict(service))
        return home

    def end(self, name: str) -> None:
        """End what is owned under this name now, and remove its folder."""
        record = self.folder / f"{name}.json"
        _end(record)
        shutil.rmtree(self.folder / name, ignore_errors=True)
        record.unlink()

    def close(self) -> None:
        """End every service of this run, newest first, and remove the folder."""
        for record in sorted(self.folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True):
            _end(record)
        shutil.rmtree(self.folder, ignore_errors=True)


def _end(record: Path) -> None:
    content = json.loads(record.read_text())
    for command in content.get("before_stop", []):
        _run(command)
    for entry in content.get("processes", []):
        stop(ProcessId(**entry))
    for command in content.get("after_stop", []):
        _run(command)


def _run(command: list[str]) -> None:
    # Cleaning goes on whatever one command says; the folder's removal shows what was left.
    subprocess.run(command, check=False, timeout=60, capture_output=True, cwd=ROOT)


def _write(path: Path, content: dict[str, Any]) -> None:
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(content))
    partial.replace(path)
