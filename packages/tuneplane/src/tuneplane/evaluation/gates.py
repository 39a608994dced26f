"""Gates as people type them: `gsm8k/exact_match>=0.4`."""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _

METRICS = "validation/"  # how the figures of a report are named among a run's metrics
_GATE = re.compile(r"(?P<metric>[^<>=]+?)\s*(?P<side>>=|<=)\s*(?P<bound>[^<>=]+)")
_SIDES = {">=": "min", "<=": "max"}


def parse_gate(text: str) -> dict[str, Any]:
    """`{metric, min}` or `{metric, max}` as `spec.evaluation.gates` has them; `validation/` may be left out. Raises `RefusedError`."""
    found = _GATE.fullmatch(text.strip())
    bound = _number(found["bound"]) if found else None
    if found is None or bound is None:
        message = _("“{text}” is no gate").format(text=text[:80])
        hint = _("write the metric, >= or <=, and a number: {example}").format(example="gsm8k/exact_match>=0.4")
        raise RefusedError([Refusal("config-invalid", message, hint, field="eval.gates")])
    metric = found["metric"]
    return {"metric": metric if metric.startswith(METRICS) else METRICS + metric, _SIDES[found["side"]]: bound}


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None
