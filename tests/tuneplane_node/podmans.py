"""A Podman service of one test, for what the shared one of the run cannot be told."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.services import podman
from tests.services.containers import Engine, unmount
from tests.services.plugin import unavailable
from tests.services.process import ServiceMissingError, stop


@contextmanager
def podman_home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="tp-podman-"))  # short: it holds a Unix socket
    try:
        yield home
    finally:
        unmount(str(home))
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def serving_podman(home: Path) -> Iterator[Engine]:
    """Podman's service with the environment of this moment; skips where there can be none."""
    try:
        service = podman.start(home)
    except ServiceMissingError as problem:
        unavailable(problem)
    try:
        yield Engine("podman", service.facts["socket"])
    finally:
        for command in service.before_stop:
            subprocess.run(command, check=True, timeout=60)
        for process in service.processes:
            stop(process)
