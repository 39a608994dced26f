"""Policies as a table and as a form. A figure that is left empty is off; what is no number stays text, for the rules to refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuneplane_server.console.i18n import N_, _
from tuneplane_server.features.governance.policies import POLICIES, PolicyModel
from tuneplane_server.features.governance.service import Policy
from tuneplane_server.web.problems import ProblemError

TITLES = {
    "drain": N_("Maintenance"),
    "approval": N_("Approval"),
    "watchdog": N_("Watchdog"),
}
ABOUT = {
    "drain": N_("While it is on nothing new is started; what runs goes on to its end. Everyone reads the text."),
    "approval": N_("A run above one of these figures waits for an administrator. Empty: nobody is asked for it."),
    "watchdog": N_(
        "What is looked for in live runs, and whether a run is stopped for it. Empty: it is not looked for."
    ),
}
_LABELS = {
    "on": N_("start nothing new"),
    "text": N_("why, for everyone to read"),
    "gpus": N_("more GPUs than"),
    "seconds": N_("runs longer than (seconds)"),
    "stalled_minutes": N_("no output and no metric for (minutes)"),
    "silent_minutes": N_("ranks that say nothing while others do, for (minutes)"),
    "not_finite_reports": N_("reports in a row whose loss is no number"),
    "disk_free_gb": N_("less free disk space than (GB)"),
    "clock_seconds": N_("a machine's clock is off by (seconds)"),
    "stop_stalled": N_("stop a run that has stalled"),
    "stop_not_finite": N_("stop a run whose loss is no number"),
}


def row(policy: Policy) -> dict[str, Any]:
    """A policy with each of its values in words."""
    values = policy.value.model_dump(mode="json")
    return {
        "name": policy.name,
        "title": title(policy.name),
        "values": [
            {"label": _label(name), "text": _shown(values[name])} for name in POLICIES[policy.name].model_fields
        ],
        "updated_at": policy.updated_at,
        "updated_by": policy.updated_by,
    }


def title(name: str) -> str:
    return _(TITLES.get(name, name))


def about(name: str) -> str:
    return _(ABOUT[name]) if name in ABOUT else ""


def fields(policy: Policy, entered: Mapping[str, str] | None, problem: ProblemError | None) -> list[dict[str, Any]]:
    """The form's fields: with what was entered, else with what is set; each with what was wrong with it."""
    wrong = {refusal.field.rpartition(".")[2]: refusal.message for refusal in (problem.refusals if problem else ())}
    values = policy.value.model_dump(mode="json")
    found = []
    for name in POLICIES[policy.name].model_fields:
        kind = _kind(POLICIES[policy.name], name)
        text = _text(values[name]) if entered is None else entered.get(name, "")
        checked = bool(values[name]) if entered is None else name in entered
        found.append(
            {
                "name": name,
                "label": _label(name),
                "kind": kind,
                "text": text,
                "checked": checked,
                "wrong": wrong.get(name, ""),
            }
        )
    return found


def value_of(name: str, entered: Mapping[str, str]) -> dict[str, Any]:
    """The policy that a form says."""
    value: dict[str, Any] = {}
    for field in POLICIES[name].model_fields:
        kind, text = _kind(POLICIES[name], field), entered.get(field, "").strip()
        if kind == "yes":
            value[field] = field in entered
        elif kind == "text":
            value[field] = text
        else:
            value[field] = _number(text) if text else None
    return value


def _kind(model: type[PolicyModel], field: str) -> str:
    """yes (a box), text, or number."""
    default = model.model_fields[field].default
    return "yes" if isinstance(default, bool) else "text" if isinstance(default, str) else "number"


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _label(name: str) -> str:
    return _(_LABELS.get(name, name))


def _text(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return _text(value) or "–"
