"""A rule in a line."""

from __future__ import annotations

from tuneplane.client.alerts import Rule
from tuneplane.i18n import _


def rule_row(rule: Rule) -> tuple[str, str, str, str]:
    """(name, on or off, what it looks for with its figures, whose it is)."""
    origins = {"default": _("default"), "changed": _("changed"), "own": _("own")}
    state = _("on") if rule["enabled"] else _("off")
    return rule["name"], state, looks_for(rule), origins.get(rule.get("origin", ""), rule.get("origin", ""))


def looks_for(rule: Rule) -> str:
    metric, threshold = rule.get("metric"), rule.get("threshold")
    parts = [rule.get("text") or rule["kind"]]
    if metric:
        parts.append(metric if threshold is None else f"{metric} {_sign(rule['kind'])} {threshold:g}")
    if rule.get("minutes"):
        parts.append(_("for {minutes:g} min").format(minutes=rule["minutes"]))
    if (rule.get("reports") or 1) > 1:
        parts.append(_("{count} reports").format(count=rule["reports"]))
    return " · ".join(parts)


def _sign(kind: str) -> str:
    return {"metric-below": "<", "reward-collapse": "↓"}.get(kind, ">")
