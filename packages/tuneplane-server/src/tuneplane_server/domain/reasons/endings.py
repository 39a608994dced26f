"""Ends that say little of the experiment: what happened to the run as a whole, what people and limits ended, and what is left."""

from __future__ import annotations

from tuneplane.i18n import N_
from tuneplane_server.domain.reasons.entry import ReasonEntry, Signal

ENTRIES = (
    # --- infra ---
    ReasonEntry(
        "node-lost",
        "infra",
        N_("the node that the run was on is gone"),
        N_(
            "it crashed, was restarted or lost its network; with retries for infra the run goes on elsewhere from its last checkpoint"
        ),
        retry=True,
    ),
    ReasonEntry(
        "evicted",
        "infra",
        N_("the node put the run out because it was short of disk or memory itself"),
        N_(
            "have the node's disk and memory looked after, and ask for what the run really uses, so that it is placed where there is room"
        ),
        retry=True,
    ),
    ReasonEntry(
        "container-lost",
        "infra",
        N_("the run's container is gone and left no outcome"),
        N_(
            "somebody removed it, or the node was restarted; with retries for infra it goes on from its last checkpoint"
        ),
        retry=True,
    ),
    ReasonEntry(
        "interrupted",
        "infra",
        N_("the run was told to stop by something other than TunePlane"),
        N_("a restart of the node or of the container runtime does this"),
        retry=True,
        signals=(Signal.SIGTERM, Signal.SIGINT, Signal.SIGHUP),
    ),
    ReasonEntry(
        "no-outcome",
        "infra",
        N_("the run ended with exit code 0 and left no outcome record"),
        N_("its wrapper ended before the training did, so it does not count as succeeded"),
        retry=True,
    ),
    # --- platform: TunePlane itself ---
    ReasonEntry(
        "package-corrupt",
        "platform",
        N_("the package or the capsule on disk is not the one that was admitted"),
        N_("submit again; if it happens again, check the disk of the storage root"),
        retry=True,
    ),
    ReasonEntry(
        "runner-failed",
        "platform",
        N_("the runner could not start the trainer"),
        N_("the message and the log say where; please report it if it is not your image"),
        retry=True,
    ),
    # --- policy: limits that somebody set ---
    ReasonEntry(
        "cancelled",
        "policy",
        N_("the run was cancelled"),
        N_("its checkpoints are kept; tp submit starts a new run"),
        retry=False,
    ),
    ReasonEntry(
        "paused",
        "policy",
        N_("the attempt was stopped because the run was paused"),
        N_("tp job resume goes on from the newest complete checkpoint"),
        retry=False,
    ),
    ReasonEntry(
        "sweep-pruned",
        "policy",
        N_("the sweep ended this trial early: others were better at the same step"),
        N_("its checkpoints are kept; tp sweep show compares the trials, and tp job resume goes on with this one"),
        retry=False,
    ),
    ReasonEntry(
        "approval-refused",
        "policy",
        N_("the run was not approved"),
        N_("ask whoever refused it what to change; a smaller or shorter run may need no approval"),
        retry=False,
    ),
    ReasonEntry(
        "time-limit",
        "policy",
        N_("the run reached its limit of {seconds} seconds"),
        N_("raise limits.max_duration, or allow retries for policy so that it goes on from its last checkpoint"),
        retry=True,
    ),
    ReasonEntry(
        "deadline-exceeded",
        "policy",
        N_("the run was not done by its deadline"),
        N_("submit earlier, with a later deadline, or with a higher priority; its checkpoints are kept"),
        retry=False,
    ),
    ReasonEntry(
        "quota-exceeded",
        "policy",
        N_("a quota of the user or the project is used up"),
        N_("end other runs, wait until the quota begins anew, or ask whoever administers the console to raise it"),
        retry=False,
    ),
    ReasonEntry(
        "preempted",
        "policy",
        N_("the run made room for one of higher priority"),
        N_("with retries for policy it waits its turn and goes on from its last checkpoint"),
        retry=True,
    ),
    ReasonEntry(
        "stalled",
        "policy",
        N_("the run was ended because nothing moved in it any more: no metric, no log line, idle GPUs"),
        N_(
            "look at the last line of each rank; a long phase that is not training reports itself with tuneplane.report"
        ),
        retry=True,
    ),
    # --- what is left when nothing says more ---
    ReasonEntry(
        "trainer-signalled",
        "user",
        N_("the trainer was ended by signal {signal}"),
        N_("a segmentation fault or abort comes from native code: look at the last lines of the log"),
        retry=True,
    ),
    ReasonEntry(
        "trainer-failed",
        "user",
        N_("the trainer ended with exit code {exit_code}"),
        N_("the last lines of the log say why; with a fix, submit again"),
        retry=True,
    ),
)
