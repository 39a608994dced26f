"""What may be true of a job for a while, in words. A condition is no phase: it ends nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuneplane.i18n import N_
from tuneplane_server.domain.alerts import CONDITION_PREFIX, message_of

CONDITIONS: dict[str, str] = {
    "unreachable": N_("the executor cannot be asked about this run for now; it may well be running"),
    "stopping": N_("the run was told to stop and has its grace time"),
    "retry-pending": N_("a further attempt begins as soon as this one is cleared away"),
    "handler-failing": N_("the console fails again and again to move this run on ({error}); it tries again later"),
    "executor-queue": N_("the run waits in the queue of {queue}, which decides when it starts"),
    "executor-starting": N_("the executor has chosen machines for the run and prepares its start there"),
    "launch-delayed": N_("the executor cannot start the run for now: {detail}"),
    "cleanup-delayed": N_("the executor cannot confirm that everything of this run is gone; its GPUs stay held"),
    "stalled": N_(
        "nothing new for {minutes} minutes: no output, metric, sample or event of any rank since {since}; "
        "its machines are heard, the load of its GPUs is not known"
    ),
    "rank-silent": N_("machine {ranks} of this run is not heard since {since}, while others are"),
    "unheard": N_("no machine of this run is heard since {since}; it may well be running and cannot reach the console"),
    "loss-not-finite": N_("{metric} was {value} at step {step} (rank {rank})"),
    "near-limit": N_("its time limit of {seconds} seconds is near: it is told to stop at {at}"),
    "disk-low": N_("the disk of the storage root has only {free_gb} GB left"),
    "clock-off": N_(
        "the clock of machine {rank} differs from the console's by {seconds} seconds; times of its logs and curves are wrong by that"
    ),
    "logs-delayed": N_("the last logs and metrics of this run are not stored yet"),
}

# What more is known sometimes: type -> (key of the data, its value -> text).
_MORE: dict[str, tuple[str, dict[str, str]]] = {
    "stalled": (
        "gpus",
        {
            "idle": N_(
                "nothing new for {minutes} minutes: no output, metric, sample or event of any rank, and its GPUs are idle, since "
                "{since}; its machines are heard"
            )
        },
    ),
}


def condition_message(kind: str, data: Mapping[str, Any]) -> str | None:
    """The message id of a condition, which its data fills; None for one that this version does not know."""
    if kind.startswith(CONDITION_PREFIX):
        return message_of(str(data.get("kind")))
    key, texts = _MORE.get(kind, ("", {}))
    return texts.get(str(data.get(key)), CONDITIONS.get(kind))
