"""Runs training scripts in forks of a process that has imported torch and TRL: `python warm.py`.

Importing them takes longer than a small training. A line on stdin is `{"argv": [interpreter, script, …], "cwd": path, "env": {…},
"log": path}`; the script runs as `__main__` with what the interpreter itself would give it, and the answer on stdout is
`{"code": exit code, or minus the signal}`. What the libraries read when they are imported (HF_HOME, OMP_NUM_THREADS) is this process's own.
"""

import gc
import json
import os
import random
import runpy
import signal
import sys
import threading
from pathlib import Path
from typing import Any

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import datasets
import numpy
import peft
import torch
import trl
from trl.experimental import sdft

SECONDS = 480  # thirty on an idle machine
# Lazy modules are loaded by use.
IMPORTED = (datasets, peft, torch, trl.SFTTrainer, trl.DPOTrainer, trl.KTOTrainer, trl.RewardTrainer, trl.GRPOTrainer, trl.RLOOTrainer, sdft.SDFTTrainer)  # fmt: skip


def become(wanted: dict[str, Any]) -> None:
    """A process as it is when the interpreter starts the script, but for the imports."""
    os.setpgid(0, 0)
    log = os.open(wanted["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["env"])
    _interpreter, script, *arguments = wanted["argv"]
    sys.argv = [script, *arguments]
    added = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    sys.path[0:1] = [str(Path(script).absolute().parent), *added]
    # No interpreter starts with the dice of another.
    random.seed()
    numpy.random.seed()
    torch.seed()


def perform(wanted: dict[str, Any]) -> int:
    child = os.fork()
    if child == 0:
        become(wanted)
        runpy.run_path(wanted["argv"][1], run_name="__main__")
        sys.exit()  # through the interpreter's own end: the reporter sends its last words there
    late = threading.Timer(SECONDS, end_group, [child])
    late.start()
    _, status = os.waitpid(child, 0)
    late.cancel()
    end_group(child)  # what it left behind
    return os.waitstatus_to_exitcode(status)


def end_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def main() -> None:
    gc.freeze()  # a collection in a fork would copy every page
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps({"code": perform(json.loads(line))}), flush=True)


if __name__ == "__main__":
    main()
