"""What Slurm itself ends a run for, or does not begin it for. The texts say it in general; `detail` has Slurm's own words and codes."""

from __future__ import annotations

from tuneplane.i18n import N_
from tuneplane_server.domain.reasons.entry import ReasonEntry

ENTRIES = (
    ReasonEntry(
        "slurm-refused",
        "infra",
        N_("Slurm refused the run as it was submitted to it"),
        N_(
            "the message quotes Slurm and names the setting of the console to change (TUNEPLANE_SLURM_PARTITION, TUNEPLANE_SLURM_ACCOUNT, TUNEPLANE_SLURM_QOS, …); then submit again"
        ),
        retry=False,
    ),
    ReasonEntry(
        "slurm-unreachable",
        "infra",
        N_("Slurm could not be asked to start the run"),
        N_(
            "see whether slurmrestd and slurmctld answer at TUNEPLANE_SLURM_URL and whether the token is valid: tuneplane-server doctor asks them"
        ),
        retry=True,
    ),
    ReasonEntry(
        "slurm-job-lost",
        "infra",
        N_("Slurm does not know the run's job any more, and nothing says how it ended"),
        N_(
            "slurmctld has lost its state, or forgot the job before the console could ask; with slurmdbd it stays known. With retries for infra it goes on from its last checkpoint"
        ),
        retry=True,
    ),
    ReasonEntry(
        "requeued",
        "infra",
        N_("Slurm stopped the run and put it back into its queue"),
        N_(
            "a lost node, a pre-emption or an administrator does this; with retries for infra a new attempt goes on from the last checkpoint"
        ),
        retry=True,
    ),
    ReasonEntry(
        "node-boot-failed",
        "infra",
        N_("a node that Slurm chose for the run did not start up"),
        N_("see slurmd and the node's prolog there, and drain the node in Slurm as long as it does not start"),
        retry=True,
    ),
    ReasonEntry(
        "gpus-missing",
        "infra",
        N_("the run got fewer GPUs than it asked for"),
        N_(
            "check gres.conf of the node and the GRES of its partition; a partition without GPUs for this profile belongs out of TUNEPLANE_SLURM_PARTITION"
        ),
        retry=True,
    ),
    ReasonEntry(
        "slurm-time-limit",
        "policy",
        N_("the run reached the time limit that it had in Slurm"),
        N_(
            "set limits.max_duration so that Slurm is asked for as long as the run needs, or raise TUNEPLANE_SLURM_TIME_LIMIT or the partition's limit; with retries for policy it goes on from its last checkpoint"
        ),
        retry=True,
    ),
    ReasonEntry(
        "slurm-cancelled",
        "policy",
        N_("somebody ended the run in Slurm"),
        N_(
            "an administrator or a tool of Slurm's did this; its checkpoints are kept, and tp job resume goes on from the newest one"
        ),
        retry=False,
    ),
)
