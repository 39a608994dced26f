"""From what is known of an ended attempt to its verdict.

The runner's word comes first, then what the machine knows (memory limit, the executor's own cause), then what the log says,
then how the process ended. The line of the log that decided is quoted in the reason's `detail`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuneplane.contract.words import RUNNER_EXIT_PLATFORM
from tuneplane_server.domain.evidence import UNKNOWN_EXCEPTION, Found, quote, read_log
from tuneplane_server.domain.phases import Phase, Reason, StopCause, Verdict
from tuneplane_server.domain.reasons import REASONS, Signal, Weight

# What bootstrap.sh and the runner print when they end before there is an outcome to write (runner/failures.PREFIX).
_LAST_WORD = re.compile(r"^TUNEPLANE-BOOTSTRAP: (?P<code>[a-z-]{1,60}): (?P<detail>.{0,2000})", re.MULTILINE)
_STOPPED = {
    StopCause.CANCEL: (Phase.CANCELLED, "cancelled"),
    StopCause.PAUSE: (Phase.CANCELLED, "paused"),
    StopCause.TIME_LIMIT: (Phase.FAILED, "time-limit"),
    StopCause.STALLED: (Phase.FAILED, "stalled"),
    StopCause.NOT_FINITE: (Phase.FAILED, "loss-not-finite"),
    StopCause.PRUNED: (Phase.CANCELLED, "sweep-pruned"),
}
_BY_SIGNAL = {number: entry.code for entry in REASONS.values() for number in entry.signals}
_BY_EXIT_CODE = {number: entry.code for entry in REASONS.values() for number in entry.exit_codes}


@dataclass(frozen=True)
class Exit:
    """How the container or process ended, as the executor saw it. `absent`: it is gone and nobody knows how it ended.

    `cause`: what the executor itself gives as the cause, a code of the reason table (`node-lost`, `preempted`, `evicted`, …);
    `detail`: its own words for that.
    """

    absent: bool = False
    exit_code: int | None = None
    signal: int | None = None
    oom_killed: bool = False
    cause: str | None = None
    detail: str = ""


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
        return _gone(end)
    return Verdict(Phase.FAILED, _by_exit(end, log_tail), from_outcome=False)


def names_cause(end: Exit) -> bool:
    """Whether the executor itself says what put an end to it."""
    return end.oom_killed or end.cause in REASONS


def _by_outcome(end: Exit, outcome: Mapping[str, Any], stop_cause: StopCause | None, log_tail: str) -> Verdict:
    result = outcome["result"]
    if result == "succeeded":
        return Verdict(Phase.SUCCEEDED, None, from_outcome=True)
    if result == "cancelled":
        if stop_cause is not None:
            return _stopped(stop_cause, from_outcome=True)
        return Verdict(Phase.FAILED, _by_machine(end, _facts(outcome)) or Reason("interrupted", _facts(outcome)), True)
    return Verdict(Phase.FAILED, _failure(end, outcome, log_tail), from_outcome=True)


def _failure(end: Exit, outcome: Mapping[str, Any], log_tail: str) -> Reason:
    facts = _facts(outcome)
    named = outcome.get("reason")
    if named in REASONS:
        return Reason(named, facts)
    known = _by_machine(end, facts)
    if known is not None:
        return known
    found = read_log(outcome.get("log_tail") or log_tail)
    exit_code, signal = outcome.get("exit_code"), outcome.get("signal")
    if exit_code is None and signal is None and not found:
        return Reason("runner-failed", facts)
    return _most_telling(found, _death(exit_code, signal), facts) or Reason("trainer-failed", facts)


def _by_exit(end: Exit, log_tail: str) -> Reason:
    """The runner left no word: it was killed, or never began."""
    facts = {"exit_code": end.exit_code, "signal": end.signal}
    known = _by_machine(end, facts)
    if known is not None:
        return known
    if end.signal == Signal.SIGTERM or end.exit_code == 128 + Signal.SIGTERM:
        return Reason("interrupted", facts)
    if end.signal == Signal.SIGKILL or end.exit_code == 128 + Signal.SIGKILL:
        return Reason("killed", facts)
    if end.exit_code == 0:
        return Reason("no-outcome", facts)
    said = _LAST_WORD.search(log_tail)
    if said is not None and said["code"] in REASONS:
        return Reason(said["code"], facts | {"detail": quote(said["detail"])})
    found = read_log(log_tail) if end.exit_code != RUNNER_EXIT_PLATFORM else []
    # An exception that the table does not know is the runner's own here.
    telling = [item for item in found if item.code != UNKNOWN_EXCEPTION]
    return _most_telling(telling, None, facts) or Reason("runner-failed", facts)


def _by_machine(end: Exit, facts: dict[str, Any]) -> Reason | None:
    """What the machine knows better than any log."""
    return Reason("out-of-memory", facts) if end.oom_killed else _by_cause(end, facts)


def _by_cause(end: Exit, facts: dict[str, Any]) -> Reason | None:
    if end.cause not in REASONS:
        return None
    return Reason(end.cause, facts | ({"detail": quote(end.detail)} if end.detail else {}))


def _gone(end: Exit) -> Verdict:
    """Lost, unless the executor says what put an end to it: a pre-emption, a limit of its own."""
    reason = _by_cause(end, {}) or Reason("container-lost")
    phase = Phase.LOST if REASONS[reason.code].class_ == "infra" else Phase.FAILED
    return Verdict(phase, reason, from_outcome=False)


def _stopped(cause: StopCause, *, from_outcome: bool) -> Verdict:
    phase, code = _STOPPED[cause]
    return Verdict(phase, Reason(code), from_outcome=from_outcome)


def _death(exit_code: int | None, signal: int | None) -> tuple[Weight, str] | None:
    """What the way the process ended says by itself. A shell passes the signal of its child on as 128 + signal."""
    if signal is None and exit_code is not None and 128 < exit_code < 192:
        signal = exit_code - 128
    if signal is not None:
        # Whoever aborts has mostly said why: an abort alone is the least that is known.
        weight = Weight.LAST_RESORT if signal == Signal.SIGABRT else Weight.DIED
        return weight, _BY_SIGNAL.get(signal, "trainer-signalled")
    code = None if exit_code is None else _BY_EXIT_CODE.get(exit_code)
    return None if code is None else (Weight.DIED, code)


def _most_telling(found: list[Found], death: tuple[Weight, str] | None, facts: dict[str, Any]) -> Reason | None:
    """`found`: the strongest first. The log wins a tie: it has a line to quote."""
    if found and (death is None or found[0].weight <= death[0]):
        return Reason(found[0].code, facts | found[0].data | {"detail": found[0].quote})
    if death is None:
        return None
    said = next((item for item in found if item.code == death[1]), None)
    return Reason(death[1], facts | ({"detail": said.quote} if said else {}))


def _facts(outcome: Mapping[str, Any]) -> dict[str, Any]:
    facts = {name: outcome.get(name) for name in ("exit_code", "signal", "detail")}
    return {name: value for name, value in facts.items() if value not in (None, "")}
