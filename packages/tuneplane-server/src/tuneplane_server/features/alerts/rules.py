"""Rules of a project as people set them: checked here, kept as rows, completed by the defaults."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.contract.words import MAX_METRIC_NAME
from tuneplane.i18n import _
from tuneplane_server.domain.alerts import DEFAULTS, Kind, Rule
from tuneplane_server.features.alerts.tables import AlertRuleRow

MAX_RULES = 100
MAX_RULE_NAME = 63
MOST_MINUTES = timedelta(days=7) / timedelta(minutes=1)
WITH_METRIC = frozenset({Kind.REWARD_COLLAPSE, Kind.KL_ABOVE, Kind.METRIC_ABOVE, Kind.METRIC_BELOW})
WITH_THRESHOLD = WITH_METRIC
WITH_MINUTES = WITH_METRIC | {Kind.NO_PROGRESS, Kind.GPU_IDLE}

Minutes = Annotated[float, Field(ge=0, le=MOST_MINUTES, allow_inf_nan=False)]


class RuleInput(BaseModel):
    """What is left out stays as it is, or as the default has it."""

    model_config = ConfigDict(extra="forbid")

    kind: Kind | None = None
    enabled: bool | None = None
    metric: Annotated[str, Field(max_length=MAX_METRIC_NAME)] | None = None
    threshold: Annotated[float, Field(allow_inf_nan=False)] | None = None
    minutes: Minutes | None = None
    reports: Annotated[int, Field(ge=1, le=1000)] | None = None


def changed(name: str, before: Rule | None, given: RuleInput) -> Rule:
    """The rule after an edit. Raises `RefusedError` with everything that is wrong."""
    kind = given.kind or (before.kind if before else None)
    if kind is None:
        raise RefusedError([_refusal("kind", _("a new rule needs its kind: {kinds}").format(kinds=", ".join(Kind)))])
    rule = Rule(
        name,
        kind,
        _first(given.enabled, before.enabled if before else None, True),
        _first(given.metric, before.metric if before else None, ""),
        _first(given.threshold, before.threshold if before else None, math.nan),
        _first(given.minutes, before.minutes if before else None, 5.0 if kind in WITH_MINUTES else 0.0),
        _first(given.reports, before.reports if before else None, 1),
    )
    refusals = _problems(rule, before, given)
    if refusals:
        raise RefusedError(refusals)
    return Rule(
        name,
        kind,
        rule.enabled,
        rule.metric,
        0.0 if math.isnan(rule.threshold) else rule.threshold,
        rule.minutes,
        rule.reports,
    )


def rules_of(rows: Iterable[AlertRuleRow]) -> dict[str, Rule]:
    """All rules of one project by name: the defaults, and what was set in their place and beside them."""
    return DEFAULTS | {row.name: rule_of(row) for row in rows if row.kind in list(Kind)}


def rule_of(row: AlertRuleRow) -> Rule:
    return Rule(
        row.name, Kind(row.kind), row.enabled, row.metric, row.threshold, row.minutes, row.reports, row.updated_at
    )


def by_project(rows: Iterable[AlertRuleRow]) -> Mapping[str, dict[str, Rule]]:
    """Project -> its rules, of projects that have set some."""
    found: dict[str, list[AlertRuleRow]] = {}
    for row in rows:
        found.setdefault(row.project_id, []).append(row)
    return {project: rules_of(mine) for project, mine in found.items()}


def _problems(rule: Rule, before: Rule | None, given: RuleInput) -> list[Refusal]:
    found: list[Refusal] = []
    if before is not None and given.kind is not None and given.kind is not before.kind:
        found.append(
            _refusal(
                "kind",
                _("the rule {name} is of kind {kind}, which does not change").format(name=rule.name, kind=before.kind),
                _("give the new rule another name"),
            )
        )
    if rule.kind in WITH_METRIC and not rule.metric:
        found.append(_refusal("metric", _("a rule of kind {kind} needs a metric").format(kind=rule.kind)))
    if "\0" in rule.metric:
        found.append(_refusal("metric", _("the name of a metric holds no NUL")))
    if rule.kind in WITH_THRESHOLD and math.isnan(rule.threshold):
        found.append(_refusal("threshold", _("a rule of kind {kind} needs a threshold").format(kind=rule.kind)))
    if rule.kind is Kind.REWARD_COLLAPSE and not math.isnan(rule.threshold) and not 0 < rule.threshold <= 1:
        found.append(_refusal("threshold", _("the share that counts as collapsed is above 0 and at most 1")))
    unused = [
        (given.metric, "metric", WITH_METRIC),
        (given.threshold, "threshold", WITH_THRESHOLD),
        (given.reports, "reports", WITH_METRIC),
        (given.minutes, "minutes", WITH_MINUTES),
    ]
    for value, field, kinds in unused:
        if value is not None and rule.kind not in kinds:
            found.append(_refusal(field, _("a rule of kind {kind} has no {field}").format(kind=rule.kind, field=field)))
    return found


def _refusal(field: str, message: str, hint: str = "") -> Refusal:
    return Refusal("request-invalid", message, hint, field)


def _first[T](*values: T | None) -> T:
    return next(value for value in values if value is not None)
