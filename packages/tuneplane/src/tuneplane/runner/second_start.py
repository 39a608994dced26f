"""A runner that finds its attempt taken: it starts nothing, writes no record, and ends as the one that has the attempt."""

from __future__ import annotations

import json
from typing import Any, Dict, Optional

from tuneplane.contract.words import OUTCOME_API_VERSION, RUNNER_EXIT_PLATFORM
from tuneplane.runner import limits
from tuneplane.runner.capsule import Capsule
from tuneplane.runner.claim import Claim
from tuneplane.runner.failures import CONTAINER_LOST, PREFIX
from tuneplane.runner.outcome import STOPPED_BEFORE_START, outcome_path
from tuneplane.runner.recorder import to_stderr
from tuneplane.runner.stopping import StopRequest

_MAX_BYTES = 1024 * 1024


def follow_earlier(claim: Claim, capsule: Capsule, machine_rank: int, stop: StopRequest) -> int:
    """Wait for the runner that has the attempt, as long as it lives; the exit code is the one its outcome tells.

    78 with the reason on stderr when it died without an outcome: the trainer may have run, so it is not started again.
    """
    waiting = told = False
    while claim.held_by_another():
        if not waiting:
            waiting = True
            to_stderr(f"tuneplane: {_name(claim)} has this attempt; this one starts nothing and ends with it\n")
        if stop.cause is not None and not told:
            told = _pass_on(claim)
        stop.wait(limits.TICK_SECONDS)
    outcome = _read_outcome(outcome_path(capsule.out_dir, machine_rank), capsule, machine_rank)
    if outcome is None:
        to_stderr(
            f"{PREFIX}{CONTAINER_LOST}: {_name(claim)} ended without an outcome; its trainer may have run, "
            "so it is not started a second time\n"
        )
        return RUNNER_EXIT_PLATFORM
    to_stderr(f"tuneplane: this attempt has ended before: {outcome.get('result')}\n")
    return _exit_code(outcome)


def _name(claim: Claim) -> str:
    pid = claim.who.get("pid")
    return "an earlier runner" if pid is None else f"an earlier runner (process {pid})"


def _pass_on(claim: Claim) -> bool:
    try:
        claim.pass_stop_on()
    except OSError as error:
        to_stderr(f"tuneplane: being told to stop cannot be passed on: {error}\n")
        return False
    return True


def _read_outcome(path: str, capsule: Capsule, machine_rank: int) -> Optional[Dict[str, Any]]:
    """The record of this attempt and machine, if there is one."""
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError):
        return None
    wanted = (OUTCOME_API_VERSION, capsule.job_id, capsule.attempt, machine_rank)
    if not isinstance(value, dict):
        return None
    found = tuple(value.get(key) for key in ("apiVersion", "job", "attempt", "machine_rank"))
    return value if found == wanted else None


def _exit_code(outcome: Dict[str, Any]) -> int:
    signal, code = outcome.get("signal"), outcome.get("exit_code")
    if isinstance(signal, int):
        return 128 + signal
    if isinstance(code, int):
        return code
    return STOPPED_BEFORE_START if outcome.get("result") == "cancelled" else RUNNER_EXIT_PLATFORM
