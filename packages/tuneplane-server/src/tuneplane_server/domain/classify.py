"""From what is known of an ended attempt to its verdict: the runner's word first, the container's exit second."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuneplane.contract.words import RUNNER_EXIT_PLATFORM
from tuneplane_server.domain.phases import Phase, Reason, StopCause, Verdict
from tuneplane_server.domain.reasons import REASONS

SIGKILL, SIGTERM = 9, 15
# What the last lines of a trainer's output give away; the first match counts, the more particular come first.
_SIGNS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), code)
    for pattern, code in (
        (r"CUDA out of memory|torch\.(cuda\.)?OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|HIP out of memory", "gpu-out-of-memory"),
        (r"uncorrectable ECC|NVRM: Xid|GPU is lost|fallen off the bus|CUDA error: unknown error", "gpu-failed"),
        (r"No space left on device|Errno 28\b|Disk quota exceeded|Errno 122\b", "disk-full"),
        (r"Read-only file system|Stale file handle|Errno (30|116)\b", "storage-failed"),
        (r"NCCL (error|WARN)|ncclSystemError|ncclRemoteError|ncclInternalError|Connection closed by peer.*gloo|Watchdog caught collective operation timeout", "communication-failed"),
        (r"^(ModuleNotFoundError|ImportError): ", "module-missing"),
        (r"Loss is NaN|loss is nan|non-finite loss|NaN loss", "loss-not-finite"),
        (r"HfArgumentParser|unrecognized arguments|got an unexpected keyword argument|yaml\.(scanner|parser)\.", "config-rejected"),
        (r"DatasetGenerationError|DataFilesNotFoundError|FileNotFoundError: .*\.(jsonl?|parquet|csv|arrow)", "data-unreadable"),
    )
)  # fmt: skip
# What bootstrap.sh and the runner print when they end before there is an outcome to write (runner/failures.PREFIX).
_LAST_WORD = re.compile(r"^TUNEPLANE-BOOTSTRAP: (?P<code>[a-z-]+): (?P<detail>.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Exit:
    """How the container or process ended, as the executor saw it. `absent`: it is gone and nobody knows how it ended."""

    absent: bool = False
    exit_code: int | None = None
    signal: int | None = None
    oom_killed: bool = False


def classify(end: Exit, outcome: Mapping[str, Any] | None, stop_cause: StopCause | None, log_tail: str = "") -> Verdict:
    """The verdict. `outcome`: the record the runner wrote (contract/outcome.py), None when there is none;
    `stop_cause`: why we had told it to stop, if we had; `log_tail`: the console's own last lines, for want of the runner's.
    """
    if outcome is not None:
        return _by_outcome(end, outcome, stop_cause, log_tail)
    if stop_cause is not None:
        return _stopped(stop_cause, from_outcome=False)
    if end.absent or (end.exit_code is None and end.signal is None and not end.oom_killed):
        # Gone, or ended while nobody watched: a machine that was restarted looks like this.
        return Verdict(Phase.LOST, Reason("container-lost"), from_outcome=False)
    return Verdict(Phase.FAILED, _by_exit(end, log_tail), from_outcome=False)


def _by_outcome(end: Exit, outcome: Mapping[str, Any], stop_cause: StopCause | None, log_tail: str) -> Verdict:
    result = outcome["result"]
    if result == "succeeded":
        return Verdict(Phase.SUCCEEDED, None, from_outcome=True)
    if result == "cancelled":
        if stop_cause is not None:
            return _stopped(stop_cause, from_outcome=True)
        return Verdict(Phase.FAILED, Reason("interrupted", _facts(outcome)), from_outcome=True)
    return Verdict(Phase.FAILED, _failure(end, outcome, log_tail), from_outcome=True)


def _failure(end: Exit, outcome: Mapping[str, Any], log_tail: str) -> Reason:
    facts = _facts(outcome)
    named = outcome.get("reason")
    if named in REASONS:
        return Reason(named, facts)
    if end.oom_killed:
        return Reason("out-of-memory", facts)
    seen = _sign(outcome.get("log_tail") or log_tail)
    if seen is not None:
        return Reason(seen, facts)
    if outcome.get("signal") == SIGKILL:
        return Reason("killed", facts)
    if outcome.get("signal") is not None:
        return Reason("trainer-signalled", facts)
    if outcome.get("exit_code") is None:
        return Reason("runner-failed", facts)
    return Reason("trainer-failed", facts)


def _by_exit(end: Exit, log_tail: str) -> Reason:
    """The runner left no word: it was killed, or never began."""
    facts = {"exit_code": end.exit_code, "signal": end.signal}
    if end.oom_killed:
        return Reason("out-of-memory", facts)
    if end.signal == SIGTERM or end.exit_code == 128 + SIGTERM:
        return Reason("interrupted", facts)
    if end.signal == SIGKILL or end.exit_code == 128 + SIGKILL:
        return Reason("killed", facts)
    if end.exit_code == 0:
        return Reason("no-outcome", facts)
    said = _LAST_WORD.search(log_tail)
    if said is not None and said["code"] in REASONS:
        return Reason(said["code"], facts | {"detail": said["detail"][:2000]})
    seen = _sign(log_tail) if end.exit_code != RUNNER_EXIT_PLATFORM else None
    return Reason(seen or "runner-failed", facts)


def _stopped(cause: StopCause, *, from_outcome: bool) -> Verdict:
    if cause is StopCause.TIME_LIMIT:
        return Verdict(Phase.FAILED, Reason("time-limit"), from_outcome=from_outcome)
    return Verdict(Phase.CANCELLED, Reason("cancelled"), from_outcome=from_outcome)


def _facts(outcome: Mapping[str, Any]) -> dict[str, Any]:
    facts = {name: outcome.get(name) for name in ("exit_code", "signal", "detail")}
    return {name: value for name, value in facts.items() if value not in (None, "")}


def _sign(text: str) -> str | None:
    tail = text[-16_000:]
    return next((code for pattern, code in _SIGNS if pattern.search(tail)), None)
