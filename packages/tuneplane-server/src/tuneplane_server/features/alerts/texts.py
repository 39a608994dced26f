"""What an alert says, in the reader's language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuneplane.i18n import N_, _
from tuneplane_server.domain.alerts import Kind, message_of
from tuneplane_server.domain.reasons import REASONS, fill

# What each kind looks for, for who sets rules.
KIND_TEXTS: dict[Kind, str] = {
    Kind.NON_FINITE: N_("a loss is NaN or infinite, as the watchdog sees it"),
    Kind.REWARD_COLLAPSE: N_("the reward has lost most of what it had gained"),
    Kind.KL_ABOVE: N_("the KL penalty is above a threshold"),
    Kind.NO_PROGRESS: N_("a run is stalled, or brings no new metric"),
    Kind.GPU_IDLE: N_("all GPUs of a run are idle"),
    Kind.METRIC_ABOVE: N_("a metric is above a threshold for a while"),
    Kind.METRIC_BELOW: N_("a metric is below a threshold for a while"),
    Kind.JOB_FAILED: N_("a run fails or is lost"),
    Kind.JOB_SUCCEEDED: N_("a run succeeds"),
}


def alert_text(kind: str, data: Mapping[str, Any]) -> str:
    """One sentence without its full stop; the kind itself when this version does not know it."""
    known = message_of(kind)
    if known is None:
        return kind
    values = dict(data)
    if "reason" in values:
        reason = values["reason"] or {}
        entry = REASONS.get(str(reason.get("code")))
        values["reason"] = fill(_(entry.text), reason.get("data", {})) if entry else str(reason.get("code") or "-")
    return fill(_(known), values)


def kind_text(kind: Kind) -> str:
    return _(KIND_TEXTS[kind])
