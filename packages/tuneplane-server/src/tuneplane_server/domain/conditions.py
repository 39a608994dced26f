"""What may be true of a job for a while, in words. A condition is no phase: it ends nothing."""

from __future__ import annotations

from tuneplane.i18n import N_

CONDITIONS: dict[str, str] = {
    "unreachable": N_("the executor cannot be asked about this run for now; it may well be running"),
    "stopping": N_("the run was told to stop and has its grace time"),
    "retry-pending": N_("a further attempt begins as soon as this one is cleared away"),
    "handler-failing": N_("the console fails again and again to move this run on ({error}); it tries again later"),
    "launch-delayed": N_("the executor cannot start the run for now: {detail}"),
    "cleanup-delayed": N_("the executor cannot confirm that everything of this run is gone; its GPUs stay held"),
    "logs-delayed": N_("the last logs and metrics of this run are not stored yet"),
}
