"""Which setting to change when Slurm refuses a job: by its error number (slurm/slurm_errno.h)."""

from __future__ import annotations

from tuneplane.i18n import N_, _

_PARTITION = N_("change TUNEPLANE_SLURM_PARTITION: it names the partition of each profile")
_CARDS = N_(
    "no node of the partition has so many nodes, cards or so much memory: ask for less, or change TUNEPLANE_SLURM_PARTITION"
)
_NODES = N_(
    "the partition has not so many nodes for one job: ask for fewer machines, or change TUNEPLANE_SLURM_PARTITION"
)
_TIME = N_("lower TUNEPLANE_SLURM_TIME_LIMIT or the job's own limit, or change TUNEPLANE_SLURM_PARTITION")
_ACCOUNT = N_("change TUNEPLANE_SLURM_ACCOUNT: it names the account that TUNEPLANE_SLURM_USER may use")
_QOS = N_("change TUNEPLANE_SLURM_QOS: it names the QOS that TUNEPLANE_SLURM_USER may use")
_RESERVATION = N_("change TUNEPLANE_SLURM_RESERVATION")
_USER = N_("TUNEPLANE_SLURM_USER may not do this: check it and its token with the cluster's administrators")
_LIMIT = N_("a limit of the account or QOS is reached: wait, or change TUNEPLANE_SLURM_ACCOUNT or TUNEPLANE_SLURM_QOS")
_OTHER = N_(
    "ask the cluster's administrators about this error, and look at TUNEPLANE_SLURM_PARTITION, …_ACCOUNT and …_QOS"
)
_HINTS = {
    2000: _PARTITION,  # ESLURM_INVALID_PARTITION_NAME
    2001: _PARTITION,  # ESLURM_DEFAULT_PARTITION_NOT_SET
    2002: _USER,  # ESLURM_ACCESS_DENIED
    2006: _NODES,  # ESLURM_TOO_MANY_REQUESTED_NODES / invalid node count
    2011: _PARTITION,  # ESLURM_REQUESTED_NODES_NOT_IN_PARTITION
    2014: _CARDS,  # ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE
    2015: _CARDS,  # ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE
    2026: _PARTITION,  # ESLURM_USER_ID_MISSING / partition not available
    2045: _ACCOUNT,  # ESLURM_INVALID_ACCOUNT
    2050: _LIMIT,  # ESLURM_ACCOUNTING_POLICY
    2051: _TIME,  # ESLURM_INVALID_TIME_LIMIT
    2052: _RESERVATION,  # ESLURM_RESERVATION_ACCESS
    2053: _RESERVATION,  # ESLURM_RESERVATION_INVALID
    2066: _QOS,  # ESLURM_INVALID_QOS
    2072: _CARDS,  # ESLURM_INVALID_GRES
    9001: _CARDS,  # ESLURM_INVALID_TRES
}


def setting_for(code: int | None) -> str:
    """What to change, in the language of the context."""
    return _(_HINTS.get(code or 0, _OTHER))
