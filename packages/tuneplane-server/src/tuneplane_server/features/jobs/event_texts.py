"""The ledger's events as sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuneplane.i18n import N_, _
from tuneplane_server.domain.conditions import condition_message
from tuneplane_server.domain.reasons import REASONS, fill
from tuneplane_server.domain.transitions import EXECUTOR_QUEUE
from tuneplane_server.features.queue.executor_texts import in_queue_text

_TEXTS = {
    "submitted": N_("submitted by {actor}"),
    "submitted-retry": N_("submitted by {actor}, to repeat run {origin} from scratch"),
    "submitted-resume": N_("submitted by {actor}, to go on from a checkpoint of run {origin}"),
    "submitted-export": N_("submitted by {actor}, to export a checkpoint of run {origin}"),
    "followed": N_("submitted after its success: {runs}"),
    "follow-refused": N_("step {step} after its success was refused: {why}"),
    "placed": N_("placed on {nodes}"),
    "launched": N_("started by the executor"),
    "running": N_("seen running"),
    "unreachable": N_("the executor cannot be asked about this run"),
    "outcome": N_("the trainer has ended; its last logs and metrics are still coming in"),
    "ended": N_("the attempt has ended"),
    "overdue": N_("the attempt had ended and was still not gone at its deadline"),
    "cleaned": N_("proved gone; its GPUs are free"),
    "settled": N_("finished; everything it sent is stored"),
    "retried": N_("a further attempt is queued, and starts after a rest of {seconds} seconds at the earliest"),
    "cancel": N_("{actor} asked to cancel it"),
    "parked": N_("proved gone; the run waits until somebody resumes it"),
    "pause": N_("{actor} paused it"),
    "resume": N_("{actor} resumed it"),
    "approve": N_("{actor} approved it"),
    "reject": N_("{actor} did not approve it: {why}"),
    "policy-stop": N_("told to stop by a policy"),
    "time-limit": N_("its time limit of {seconds} seconds is reached"),
    "adopted": N_("found alive when the console started"),
    "stop-sent": N_("told to stop"),
    "telemetry-removed": N_("its output was removed: the project keeps no more of it"),
}


_PASSED_ON = N_("passed on to the queue of {queue}, which decides when it starts")
_RUNNING_ON = N_("seen running on {nodes}")
_RETRIED_AT_ONCE = N_("a further attempt is queued, and starts as soon as it is its turn")
_ENOUGH = {
    "repeated": N_("it ended {count} times in a row for this reason without having come any further: no further attempt is made"),
    "attempts": N_("it has had {count} attempts: no further one is made"),
}  # fmt: skip


def why_no_more(data: Mapping[str, Any]) -> str:
    """Why no further attempt is made although the reason allows one; empty when nothing is known."""
    return "".join(_(text).format(count=data[name]) for name, text in _ENOUGH.items() if data.get(name))


def event_text(kind: str, data: Mapping[str, Any], ignored: bool) -> str:
    """The sentence of an event, in the reader's language."""
    if kind in ("condition", "condition-cleared"):
        name = str(data.get("condition", ""))
        said = condition_text(name, data) if kind == "condition" else _condition(name, data)
        text = said if kind == "condition" else _("no longer: {condition}").format(condition=said)
    else:
        text = fill(_(_text_of(kind, data)), data) if kind in _TEXTS else kind
    if kind == "settled" and (why := why_no_more(data)):
        text = _("{event}; {why}").format(event=text, why=why)
    if data.get("reason"):
        entry = REASONS.get(data["reason"]["code"])
        why = fill(_(entry.text), data["reason"]["data"]) if entry else data["reason"]["code"]
        text = _("{event}: {reason}").format(event=text, reason=why)
    return _("ignored: {event}").format(event=text) if ignored else text


def condition_text(name: str, data: Mapping[str, Any]) -> str:
    """What is true of a job for now; a condition that a later version wrote shows as it is."""
    return in_queue_text(data) if name == EXECUTOR_QUEUE else _condition(name, data)


def _condition(name: str, data: Mapping[str, Any]) -> str:
    known = condition_message(name, data)
    return fill(_(known), data) if known else name


_REMOVED = {
    "metrics": N_("its metrics were removed: the project keeps them no longer"),
    "samples": N_("its samples were removed: the project keeps no more of them"),
}


def _text_of(kind: str, data: Mapping[str, Any]) -> str:
    if kind == "telemetry-removed" and data.get("kind") in _REMOVED:
        return _REMOVED[data["kind"]]
    if kind == "placed" and data.get("queue"):
        return _PASSED_ON
    if kind == "running" and data.get("nodes"):
        return _RUNNING_ON
    return _RETRIED_AT_ONCE if kind == "retried" and not data.get("seconds") else _TEXTS[kind]
