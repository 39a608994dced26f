"""What the executor says about this machine, and what the capsule says about its pool."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Mapping

from tuneplane.adapters import Machine
from tuneplane.contract.words import ENV_MACHINE_COUNT, ENV_MACHINE_RANK, ENV_MAIN_IP, ENV_MAIN_PORT
from tuneplane.runner.capsule import Capsule
from tuneplane.runner.failures import RUNNER_FAILED, StartError


def machine_rank(environ: Mapping[str, str]) -> int:
    return _number(environ, ENV_MACHINE_RANK, 0)


def describe_machine(capsule: Capsule, environ: Mapping[str, str], work_dir: str) -> Machine:
    """Raises `StartError` when the executor's word and the capsule's do not fit."""
    rank = machine_rank(environ)
    try:
        return Machine(
            rank=rank,
            count=_number(environ, ENV_MACHINE_COUNT, capsule.machine_count),
            gpus_per_node=int(pool_of(capsule.pools, rank).get("gpus_per_node", 0)),
            main_ip=environ.get(ENV_MAIN_IP) or "127.0.0.1",
            main_port=_number(environ, ENV_MAIN_PORT, 29500),
            python=sys.executable or "python3",
            work_dir=work_dir,
        )
    except ValueError as error:
        raise StartError(RUNNER_FAILED, str(error)) from error


def pool_of(pools: List[Dict[str, Any]], rank: int) -> Dict[str, Any]:
    """The pool of a machine: ranks are given out pool by pool, in the order of the capsule."""
    first = 0
    for pool in pools:
        first += int(pool.get("nodes", 1))
        if rank < first:
            return pool
    return pools[-1] if pools else {}


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise StartError(RUNNER_FAILED, f"{name} is {text[:40]!r}, not a number")
    return int(text)
