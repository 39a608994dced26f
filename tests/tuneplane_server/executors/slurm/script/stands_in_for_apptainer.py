"""Stands in for `apptainer exec`: a clean environment, APPTAINERENV_NAME as NAME, signals passed on. Nothing is contained."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

WITH_VALUE = ("--bind", "--workdir", "--pwd")


def main() -> int:
    arguments, options = sys.argv[2:], []
    while arguments[0].startswith("--"):
        count = 2 if arguments[0] in WITH_VALUE else 1
        options.append(arguments[:count])
        del arguments[:count]
    image, command = arguments[0], arguments[1:]
    rank = os.environ["APPTAINERENV_TUNEPLANE_MACHINE_RANK"]
    called = {"options": options, "image": image, "argv": sys.argv, "pid": os.getppid()}
    (Path(os.environ["STAND_DIR"]) / f"exec-{rank}.json").write_text(json.dumps(called), encoding="utf-8")
    prefix = "APPTAINERENV_"
    given = {name[len(prefix) :]: value for name, value in os.environ.items() if name.startswith(prefix)}
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **given}
    signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGTERM}
    )  # one that comes now waits until there is somebody to pass it to
    child = subprocess.Popen(
        command, env=environment, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    )
    signal.signal(signal.SIGTERM, lambda number, _frame: child.send_signal(number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
