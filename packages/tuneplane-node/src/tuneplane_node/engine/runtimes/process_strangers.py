"""Jobs of process mode whose record is gone: found by what their processes carry in the environment. Blocking."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path

from tuneplane_node.engine.requests import (
    LABEL_ATTEMPT,
    LABEL_INSTANCE,
    LABEL_JOB,
    LaunchRequest,
    RuntimeHandle,
    is_launch_name,
)
from tuneplane_node.engine.runtimes.base import KILL_SECONDS
from tuneplane_node.engine.runtimes.process_records import TOKEN_VARIABLE, Record
from tuneplane_node.engine.strangers import VISIBLE_SIMULATED_GPUS, Stranger, cards_in, stranger_of
from tuneplane_node.engine.supervisor.procfs import carrying, environments
from tuneplane_node.engine.supervisor.records import read_record

# Beside the token: whose the process is, and the record that says so as long as it is there.
OF_VARIABLE, RECORD_VARIABLE = "TUNEPLANE_PROCESS_OF", "TUNEPLANE_PROCESS_RECORD"
_POLL_SECONDS = 0.05


def marks(request: LaunchRequest, record: Record) -> dict[str, str]:
    """What every process of the job is to carry."""
    of = "/".join(request.labels.get(label, "") for label in (LABEL_INSTANCE, LABEL_JOB, LABEL_ATTEMPT))
    return {TOKEN_VARIABLE: record.token, OF_VARIABLE: of, RECORD_VARIABLE: str(record.path)}


def find_strangers() -> list[Stranger]:
    """A job whose record is there is that one's, whoever has it: several daemons on a machine stay apart."""
    return [found for _token, found in _strangers().values()]


def end_stranger(stranger: Stranger) -> bool:
    """SIGKILL to all of it; True when there is nobody left."""
    token = next((token for token, found in _strangers().values() if found.handle == stranger.handle), None)
    deadline = time.monotonic() + KILL_SECONDS
    while token is not None and (members := carrying(TOKEN_VARIABLE, token)):
        for process in members:
            process.signal(signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _strangers() -> dict[str, tuple[str, Stranger]]:
    """By name: (token, the job)."""
    found: dict[str, tuple[str, Stranger]] = {}
    seen: set[str] = set()
    for env in environments(TOKEN_VARIABLE):
        token = env[TOKEN_VARIABLE]
        if token in seen:
            continue
        seen.add(token)
        stranger = _stranger(token, env)
        if stranger is not None:
            found[stranger.handle.name] = token, stranger
    return found


def _stranger(token: str, env: Mapping[str, str]) -> Stranger | None:
    record = Path(env.get(RECORD_VARIABLE, ""))
    instance, _slash, rest = env.get(OF_VARIABLE, "").partition("/")
    job, _slash, attempt = rest.partition("/")
    if not record.is_absolute() or not is_launch_name(record.name) or _knows(record, token):
        return None
    handle = RuntimeHandle("process", record.name)
    labels = {LABEL_INSTANCE: instance, LABEL_JOB: job, LABEL_ATTEMPT: attempt}
    return stranger_of(handle, labels, running=True, gpus=cards_in(env, VISIBLE_SIMULATED_GPUS, "CUDA_VISIBLE_DEVICES"))


def _knows(record: Path, token: str) -> bool:
    """Whether somebody keeps the job's record. What cannot be read may be kept."""
    try:
        value = read_record(record / "request.json")
    except (OSError, ValueError):
        return True
    return value is not None and value.get("token") == token
