"""Between a job row and the state that `transition` works on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tuneplane_server.domain.phases import (
    Approval,
    Cleanup,
    Condition,
    Desired,
    JobState,
    Phase,
    Reason,
    StopCause,
    Verdict,
)
from tuneplane_server.features.jobs.tables import JobRow


def state_of(row: JobRow) -> JobState:
    return JobState(
        phase=Phase(row.phase),
        phase_since=row.phase_since,
        desired=Desired(row.desired),
        stop_cause=StopCause(row.stop_cause) if row.stop_cause else None,
        conditions=tuple(
            Condition(item["type"], datetime.fromisoformat(item["since"]), item["data"]) for item in row.conditions
        ),
        verdict=_verdict_of(row.verdict),
        reason=reason_of(row.reason),
        cleanup=Cleanup(row.cleanup),
        attempt=row.attempt,
        handle=row.handle,
        paused=row.paused,
        approval=Approval(row.approval),
        not_before=row.not_before,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )


def held_back(row: JobRow) -> str | None:
    """`JobState.held_back` of a row."""
    return state_of(row).held_back


def columns_of(state: JobState) -> dict[str, Any]:
    """The values of a job row's columns that say `state`."""
    return {
        "phase": str(state.phase),
        "phase_since": state.phase_since,
        "desired": str(state.desired),
        "stop_cause": str(state.stop_cause) if state.stop_cause else None,
        "conditions": [
            {"type": item.type, "since": item.since.isoformat(), "data": dict(item.data)} for item in state.conditions
        ],
        "verdict": verdict_json(state.verdict),
        "reason": reason_json(state.reason),
        "cleanup": str(state.cleanup),
        "attempt": state.attempt,
        "handle": dict(state.handle) if state.handle is not None else None,
        "paused": state.paused,
        "approval": str(state.approval),
        "not_before": state.not_before,
        "started_at": state.started_at,
        "finished_at": state.finished_at,
    }


def reason_json(reason: Reason | None) -> dict[str, Any] | None:
    return None if reason is None else {"code": reason.code, "data": dict(reason.data)}


def reason_of(stored: Mapping[str, Any] | None) -> Reason | None:
    return None if stored is None else Reason(stored["code"], stored["data"])


def verdict_json(verdict: Verdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    return {"phase": str(verdict.phase), "reason": reason_json(verdict.reason), "from_outcome": verdict.from_outcome}


def _verdict_of(stored: Mapping[str, Any] | None) -> Verdict | None:
    if stored is None:
        return None
    return Verdict(Phase(stored["phase"]), reason_of(stored["reason"]), stored["from_outcome"])
