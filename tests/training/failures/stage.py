"""Runs scripts that fail, each in a process of its own, in the training runtime: `python stage.py`.

Importing torch and TRL takes longer than failing, so it is done once and each script runs in a fork. A line on stdin is
`{"script": path, "folder": path}`; the script runs as __main__ in the folder with its output in `<folder>/log`, and the answer on
stdout is `{"exit_code": n or null, "signal": n or null}`. Standard library beside what the scripts use; nothing of ours.
"""

import json
import os
import runpy
import signal
import sys
import threading

import datasets
import torch
import transformers
import trl
from accelerate.commands import launch
from torch.distributed import run as torchrun

SECONDS = 90
IMPORTED = (datasets, launch, torchrun, transformers, trl.SFTTrainer, trl.DPOTrainer)  # lazy modules are loaded by use


def play(script: str) -> None:
    """The script as Python itself would run it, up to the exit code."""
    code = 0
    try:
        sys.argv = [script]
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as failure:  # noqa: BLE001 - whatever the script raises is its failure
        sys.excepthook(type(failure), failure, failure.__traceback__)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def perform(script: str, folder: str) -> "dict[str, int | None]":
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            log = os.open(f"{folder}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.chdir(folder)
            play(script)
        finally:
            os._exit(70)  # not reached: a fork must never become a second stage
    late = threading.Timer(SECONDS, end_group, [child])
    late.start()
    _, status = os.waitpid(child, 0)
    late.cancel()
    end_group(child)  # what it left behind
    code = os.waitstatus_to_exitcode(status)
    return {"exit_code": code if code >= 0 else None, "signal": -code if code < 0 else None}


def end_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def main() -> None:
    torch.set_num_threads(1)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        print(json.dumps(perform(wanted["script"], wanted["folder"])), flush=True)


if __name__ == "__main__":
    main()
