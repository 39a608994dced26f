"""Quotas as a table and as a form. A field of the form that is empty takes the default's value; “no limit” overrides it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuneplane_server.console.display import duration
from tuneplane_server.console.i18n import _
from tuneplane_server.features.governance.limits import FIELDS, noun, source_of
from tuneplane_server.features.governance.quotas import Quota
from tuneplane_server.web.problems import ProblemError

LISTS = ("profiles", "images")
UNLIMITED = "_unlimited"  # the box beside a field


def row(quota: Quota) -> dict[str, Any]:
    """The limits in force, each with where it comes from."""
    limits = vars(quota.limits)
    return {
        "scope": quota.subject.scope,
        "name": quota.subject.name,
        "version": quota.version,
        "updated_at": quota.updated_at,
        "updated_by": quota.updated_by,
        "limits": [
            {
                "name": field,
                "label": noun(field),
                "text": _shown(field, limits[field]),
                "own": field in quota.own,
            }
            for field in FIELDS
            if source_of(field, quota.own, quota.default) is not None
        ],
    }


def fields(quota: Quota, entered: Mapping[str, str] | None, problem: ProblemError | None) -> list[dict[str, Any]]:
    """The form's fields: with what was entered, else with what is set; each with what was wrong with it."""
    wrong = {refusal.field.rpartition(".")[2]: refusal.message for refusal in (problem.refusals if problem else ())}
    return [
        {
            "name": field,
            "label": noun(field),
            "list": field in LISTS,
            "text": _entered(field, quota) if entered is None else entered.get(field, ""),
            "unlimited": _is_unlimited(field, quota) if entered is None else field + UNLIMITED in entered,
            "inherited": None if quota.subject.default else _shown(field, quota.default.get(field)),
            "wrong": wrong.get(field, ""),
        }
        for field in FIELDS
    ]


def limits_of(entered: Mapping[str, str]) -> dict[str, Any]:
    """The limits that a form says; what is no number stays text, for the rules to refuse."""
    values: dict[str, Any] = {}
    for field in FIELDS:
        text = entered.get(field, "").strip()
        if field + UNLIMITED in entered:
            values[field] = None
        elif text:
            values[field] = _lines(text) if field in LISTS else _number(text)
    return values


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _number(text: str) -> int | float | str:
    if not text.isascii() or "_" in text:
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _entered(field: str, quota: Quota) -> str:
    value = quota.own.get(field)
    return "" if value is None else "\n".join(value) if field in LISTS else f"{value}"


def _is_unlimited(field: str, quota: Quota) -> bool:
    return field in quota.own and quota.own[field] is None


def _shown(field: str, value: Any) -> str:
    if value is None:
        return _("no limit")
    if field in LISTS:
        return ", ".join(value)
    return duration(value) if field == "max_seconds" else f"{value:g}" if isinstance(value, float) else str(value)
