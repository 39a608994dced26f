"""Stands in for `srun` of a job: what the script relies on, as seen on 22.05 and 24.11 (executors/slurm/script/batch.py). Settings by environment variables STAND_*; each call is one line of JSON in $STAND_LOG."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

FLAGS = ("--overlap", "--no-container-mount-home", "--no-container-entrypoint")


def main() -> int:
    if sys.argv[1:] == ["--help"]:
        print(os.environ.get("STAND_HELP", ""))
        return 0
    if sys.argv[1:] == ["--version"]:
        print("slurm-wlm " + os.environ.get("STAND_VERSION", "24.11.5"))
        return 0
    options: dict[str, str] = {}
    arguments = sys.argv[1:]
    while arguments and arguments[0].startswith("--"):
        name, _, value = arguments.pop(0).partition("=")
        options[name] = value
    with Path(os.environ["STAND_LOG"]).open("a", encoding="utf-8") as log:
        log.write(json.dumps({"options": options, "command": arguments}) + "\n")
    exported = options["--export"].split(",")
    environment = {name: os.environ[name] for name in exported if name in os.environ}
    environment |= {name: value for name, value in os.environ.items() if name.startswith(("SLURM_", "STAND_"))}
    environment |= {"SLURM_LAUNCH_NODE_IPADDR": "10.0.0.7", "SLURM_STEP_ID": "0"}
    if "STAND_UNREACHABLE" in os.environ:
        print("srun: error: Unable to create step for job 700: Requested nodes are busy", file=sys.stderr)
        return 1
    if "tuneplane" not in arguments:  # the step that asks every machine of a component for its name
        for index in reversed(range(int(options["--nodes"]))):
            name = f"n{int(options.get('--het-group', '0')) * 100 + index}"
            subprocess.run(
                arguments, env={**environment, "SLURM_NODEID": str(index), "SLURMD_NODENAME": name}, check=True
            )
        return 0
    if "STAND_REFUSES" in os.environ:
        print("srun: error: Unable to confirm allocation for job 700: Job is pending execution", file=sys.stderr)
        return 1
    environment["SLURMD_NODENAME"] = options.get("--nodelist", "n0")
    wanted = options.get("--gres", "none").rpartition(":")[2]
    given = int(os.environ.get("STAND_GPUS", wanted if wanted.isdigit() else "0"))
    environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(given))) or "NoDevFiles"
    if "--container" in options and "STAND_NO_OCI" not in os.environ:
        environment["TUNEPLANE_IN_BUNDLE"] = "1"
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    step = subprocess.Popen(
        arguments,
        env=environment,
        start_new_session=True,
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM}),
    )
    # srun answers a SIGTERM by killing its step.
    signal.signal(signal.SIGTERM, lambda _number, _frame: os.killpg(step.pid, signal.SIGKILL))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    code = step.wait()
    if os.environ.get("STAND_ABORTS"):
        print("srun: error: Timed out waiting for job step to complete", file=sys.stderr)
        return 0
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
