"""Ray under a driver: machine 0 runs the driver, the others lend their cards to its cluster until it has ended.

Source: ray 2.60, `python/ray/scripts/scripts.py` (`ray start --block` ends its own processes when it is told to stop) and
`python/ray/_private/worker.py` (`RAY_ADDRESS`; `local` = a cluster of the driver's own, whatever else runs on the machine).
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Sequence, Tuple

from tuneplane.adapters.command import Command, LogHint, Machine
from tuneplane.adapters.experiment import experiment_dir
from tuneplane.adapters.ray_script import SCRIPT

SCRIPT_FILE = "ray.sh"  # below the work dir
_JOIN_SECONDS = 900  # for all machines to be there: images are pulled and environments unpacked at different speeds


def ray_command(
    capsule: Mapping[str, Any],
    machine: Machine,
    driver: Sequence[str],
    *,
    files: Mapping[str, str] = {},
    env: Mapping[str, str] = {},
    log_hints: Tuple[LogHint, ...] = (),
    head_always: bool = False,
) -> Command:
    """The command of one machine. `driver` is started on machine 0 as it is, in the experiment's directory, when all machines have joined;
    its exit code is the command's. The other machines stay until the driver's cluster is gone and end with 0.

    One machine needs no cluster beforehand: `ray.init()` of the driver starts its own. `head_always` starts one there too, for
    drivers that only join (`address="auto"`). `files` and `env` are added on every machine: Ray's processes get the environment of the
    machine they run on.
    """
    shared = {**_environment(), **env}
    if machine.count == 1 and not head_always:
        return Command(
            tuple(driver), experiment_dir(capsule), {**shared, "RAY_ADDRESS": "local"}, dict(files), log_hints
        )
    return Command(
        argv=("sh", f"{machine.work_dir}/{SCRIPT_FILE}", *_place(machine), *(driver if machine.rank == 0 else ())),
        cwd_relative=experiment_dir(capsule),
        env=shared,
        files={SCRIPT_FILE: SCRIPT, **files},
        log_hints=log_hints,
    )


def _place(machine: Machine) -> Tuple[str, ...]:
    """The script's own arguments, in front of the driver's: python, rank, count, cards, address, port, seconds to wait."""
    numbers = (machine.rank, machine.count, machine.gpus_per_node)
    return (machine.python, *map(str, numbers), machine.main_ip, str(machine.main_port), str(_JOIN_SECONDS))


def _environment() -> Dict[str, str]:
    return {
        "PYTHONUNBUFFERED": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        # Else Ray 2.60 asks for the token in the home directory as soon as there is one, and machines have homes of their own.
        "RAY_AUTH_MODE": "disabled",
        # When the driver has ended nothing is worth waiting for, and a machine whose head is gone would wait for an answer.
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "3",
        "RAY_DEDUP_LOGS": "0",  # the console folds and filters; a line that Ray holds back for seconds is lost by a kill
    }
