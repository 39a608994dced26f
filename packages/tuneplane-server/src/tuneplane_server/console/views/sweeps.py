"""A sweep as its row in the list and its page show it."""

from __future__ import annotations

from typing import Any

from tuneplane.sweeps.space import as_text
from tuneplane_server.console.i18n import N_, _
from tuneplane_server.domain.sweeps import ACTIVE, Trial, TrialState, again, worth

# state -> (word, tone, icon)
_STATES = {
    "running": (N_("Running"), "phase-running", "activity"),
    "stopping": (N_("Stopping"), "phase-finishing", "rotate-cw"),
    "cancelling": (N_("Cancelling"), "phase-finishing", "rotate-cw"),
    "done": (N_("Done"), "phase-succeeded", "circle-check"),
    "stopped": (N_("Stopped"), "phase-failed", "circle-x"),
    "cancelled": (N_("Cancelled"), "phase-cancelled", "circle-slash"),
    "planned": (N_("Planned"), "phase-queued", "circle-dashed"),
    "submitted": (N_("At work"), "phase-running", "activity"),
    "succeeded": (N_("Succeeded"), "phase-succeeded", "circle-check"),
    "pruned": (N_("Stopped early"), "phase-cancelled", "circle-slash"),
    "failed": (N_("Failed"), "phase-failed", "circle-x"),
}
_METHODS = {"grid": N_("grid"), "random": N_("random"), "bayes": N_("Bayesian"), "asha": N_("random, stopped early")}
_GOALS = {"min": N_("less is better"), "max": N_("more is better")}
COMPARED = 20  # runs that one comparison is opened with


def shown(sweep: dict[str, Any]) -> dict[str, Any]:
    """`sweep` (API shape) with what templates need beside it; its trials, if it has them, the best first."""
    counts = sweep["counts"]
    over = sum(counts.get(state, 0) for state in ("succeeded", "pruned", "failed", "cancelled"))
    found = sweep | {
        "active": sweep["state"] in ACTIVE,
        "shown_state": _state(sweep["state"]),
        "shown_method": _(_METHODS[sweep["method"]]) if sweep["method"] in _METHODS else sweep["method"],
        "shown_goal": _(_GOALS[sweep["objective"]["goal"]]) if sweep["objective"] else "",
        "over": over,
        "axes": [{"name": name, "text": _axis_text(axis)} for name, axis in sweep["params"].items()],
    }
    if "trials" not in sweep:
        return found
    goal = sweep["objective"]["goal"] if sweep["objective"] else "min"
    trials = sorted(sweep["trials"], key=lambda trial: (worth(_known(trial), goal), trial["number"]))
    runs = [trial["job_id"] for trial in trials if trial["job_id"]]
    return found | {
        "trials": [_trial(trial, sweep) for trial in trials],
        "compared": runs[:COMPARED],
        "resumable": sweep["state"] not in ACTIVE and _left(sweep),
    }


def _left(sweep: dict[str, Any]) -> bool:
    """Whether there is something that resuming would run."""
    states = [TrialState(trial["state"]) for trial in sweep["trials"]]
    return len(states) < sweep["total"] or any(state is TrialState.PLANNED or again(state) for state in states)


def _trial(trial: dict[str, Any], sweep: dict[str, Any]) -> dict[str, Any]:
    best = sweep["best"] is not None and sweep["best"]["number"] == trial["number"]
    return trial | {
        "shown_state": _state(trial["state"]),
        "values": [as_text(trial["params"].get(name)) for name in sweep["params"]],
        "best": best,
        "live": trial["state"] == TrialState.SUBMITTED,
    }


def _known(trial: dict[str, Any]) -> Trial:
    value = trial["value"]
    return Trial(trial["number"], TrialState(trial["state"]), value if isinstance(value, int | float) else None)


def _state(name: str) -> dict[str, str]:
    word, tone, icon = _STATES.get(name, (name, "phase-queued", "circle-dashed"))
    return {"word": _(word), "tone": tone, "icon": icon}


def _axis_text(axis: dict[str, Any]) -> str:
    if axis.get("values") is not None:
        return ", ".join(as_text(value) for value in axis["values"])
    text = f"{axis['min']} … {axis['max']}"
    return _("{range}, log").format(range=text) if axis.get("log") else text
