"""`python -m tests.services.guardian FOLDER PID`: when process PID ends, end the services recorded in FOLDER.

A pytest run that ends by itself has already removed its folder; this is for one that was killed.
"""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress
from pathlib import Path

from tests.services.session import ServiceSession


def main(folder: Path, pid: int) -> None:
    with suppress(ProcessLookupError):  # ended before we looked
        descriptor = os.pidfd_open(pid)
        select.select([descriptor], [], [])
    if folder.exists():
        ServiceSession(folder, pid).close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
