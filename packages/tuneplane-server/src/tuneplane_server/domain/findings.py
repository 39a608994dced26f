"""What may be wrong with the console itself for a while, in words: what, and what to do. Shown to every reader."""

from __future__ import annotations

from dataclasses import dataclass

from tuneplane.i18n import N_

REPLICAS_WITHOUT_REDIS = "replicas-without-redis"
REPLICAS_ON_ONE_MACHINE = "replicas-on-one-machine"
REDIS_AWAY = "redis-away"
DISK_LOW = "disk-low"
NODES_UNREACHABLE = "nodes-unreachable"
NODES_REFUSED = "nodes-refused"
RUNTIME_REGISTRY = "runtime-registry"
SLURM_UNREACHABLE = "slurm-unreachable"
SLURM_TOKEN = "slurm-token"  # noqa: S105 - a code
SLURM_TOKEN_EXPIRING = "slurm-token-expiring"  # noqa: S105 - a code


@dataclass(frozen=True)
class FindingText:
    """`text` and `hint` are message ids; the finding's data fills them."""

    text: str
    hint: str


FINDINGS: dict[str, FindingText] = {
    REPLICAS_WITHOUT_REDIS: FindingText(
        N_(
            "{count} console replicas run and not all of them have Redis, so the background roles are disabled on all of "
            "them: no run is started, watched or cleaned up, and the watchdog does not run. What runs already goes on."
        ),
        N_("Set TUNEPLANE_REDIS_URL on every replica, or stop all replicas but one."),
    ),
    REPLICAS_ON_ONE_MACHINE: FindingText(
        N_(
            "{count} console replicas run on an executor that only the console which started a run can ask about it, so the "
            "background roles are disabled on all of them. What runs already goes on."
        ),
        N_("Stop all replicas but one."),
    ),
    REDIS_AWAY: FindingText(
        N_("Redis does not answer. Everything goes on, a little later than usual: the rows are polled."),
        N_("Look at the Redis server and at TUNEPLANE_REDIS_URL; the console connects again by itself."),
    ),
    DISK_LOW: FindingText(
        N_("Little space is left on the disk of {path}: {free_gb} GB free, {percent} %."),
        N_("Delete old checkpoints or add space: on a full disk runs fail and what they report cannot be stored."),
    ),
    NODES_UNREACHABLE: FindingText(
        N_("Nodes that cannot be reached: {count} ({names}). What runs there goes on; nothing new begins there."),
        N_("The hardware page says why. On the node: systemctl status tuneplane-node, and tuneplane-node check."),
    ),
    NODES_REFUSED: FindingText(
        N_("Nodes that cannot be used as they are: {count} ({names}). Nothing new begins there."),
        N_("The hardware page and tp admin node ls say what is wrong with each of them."),
    ),
    RUNTIME_REGISTRY: FindingText(
        N_("The runtime registry was changed and cannot be used ({where}); what it said before goes on to count."),
        N_(
            "The page of the runtimes and tuneplane-server doctor say what is wrong; once it is mended, it counts by itself."
        ),
    ),
    SLURM_UNREACHABLE: FindingText(
        N_("Slurm cannot be asked. What runs goes on and reports; nothing new begins, and no end is seen."),
        N_(
            "tuneplane-server doctor says why; see whether slurmrestd and slurmctld run and TUNEPLANE_SLURM_URL leads there."
        ),
    ),
    SLURM_TOKEN: FindingText(
        N_(
            "Slurm does not take the console's token. What runs goes on and reports; nothing new begins, and no end is seen."
        ),
        N_(
            "See whether whatever renews the file in TUNEPLANE_SLURM_TOKEN_FILE still does; a fresh one counts by itself."
        ),
    ),
    SLURM_TOKEN_EXPIRING: FindingText(
        N_("The console's token for Slurm expires at {when} and has not been renewed."),
        N_(
            "See whether whatever renews the file in TUNEPLANE_SLURM_TOKEN_FILE still does; a fresh one counts by itself."
        ),
    ),
}
