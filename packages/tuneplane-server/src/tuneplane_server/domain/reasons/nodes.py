"""What stands in the way on a node before a trainer starts there. The texts say it in general; `detail` is the node's own sentence."""

from __future__ import annotations

from tuneplane.i18n import N_
from tuneplane_server.domain.reasons.entry import ReasonEntry

ENTRIES = (
    ReasonEntry(
        "node-unreachable",
        "infra",
        N_("a node that the run was to start on could not be reached"),
        N_(
            "see on the node whether tuneplane-node serve runs and whether the console may connect to it; tp admin node ls shows since when"
        ),
        retry=True,
    ),
    ReasonEntry(
        "capsule-altered",
        "infra",
        N_("the node {node} read other contents than the console wrote, so nothing was started there"),
        N_(
            "check the storage of that node: an old copy, a cache of the network file system, or somebody who edits there"
        ),
        retry=True,
    ),
    ReasonEntry(
        "capsule-unreadable",
        "infra",
        N_("the node {node} cannot read what the console wrote for the run"),
        N_("check on that node that the storage root is mounted and that the user of its daemon may read it"),
        retry=True,
    ),
    ReasonEntry(
        "storage-missing",
        "infra",
        N_("the storage root does not exist on the node {node}"),
        N_("mount the shared storage there, at the same path as on the console"),
        retry=True,
    ),
    ReasonEntry(
        "storage-unusable",
        "infra",
        N_("the storage root cannot be used on the node {node}"),
        N_("check the mount on that node: a stale NFS handle needs a remount, a file server that hangs needs help"),
        retry=True,
    ),
    ReasonEntry(
        "path-outside-storage",
        "infra",
        N_("the node {node} has another storage root than the console"),
        N_("set TUNEPLANE_STORAGE_ROOT to the same path on the console and on every node"),
        retry=False,
    ),
    ReasonEntry(
        "main-unreachable",
        "infra",
        N_("the machines of the run do not reach each other over the network"),
        N_(
            "open the ports from 20000 to 29999 between the nodes; the message names each address that was tried, and why"
        ),
        retry=True,
    ),
    ReasonEntry(
        "job-ports-exhausted",
        "infra",
        N_("the node {node} has no free port left at which the machines of the run could meet"),
        N_("see who holds the ports from 20000 to 29999 there (ss -tanp)"),
        retry=True,
    ),
    ReasonEntry(
        "job-port-taken",
        "infra",
        N_("the port at which the machines of the run were to meet was taken by another program"),
        N_("keep other services off the ports from 20000 to 29999 of the nodes; the next attempt gets another port"),
        retry=True,
    ),
    ReasonEntry(
        "ingest-dns",
        "infra",
        N_("the node {node} cannot find the address of the console, where the run would send its log and metrics"),
        N_("mend the name resolution of that node, or give TUNEPLANE_INGEST_URL on the console an IP address"),
        retry=True,
    ),
    ReasonEntry(
        "ingest-unreachable",
        "infra",
        N_("the node {node} cannot connect to the console, where the run would send its log and metrics"),
        N_("set TUNEPLANE_INGEST_URL on the console to an address that every node reaches, and open its port"),
        retry=True,
    ),
    ReasonEntry(
        "clock-offset",
        "infra",
        N_("the clock of the node {node} differs too much from the console's"),
        N_("let both follow a time server: timedatectl set-ntp true, or chrony"),
        retry=True,
    ),
    ReasonEntry(
        "disk-low",
        "infra",
        N_("the node {node} has too little free disk space to begin a run"),
        N_("free space in the storage root and where that node keeps its state and images"),
        retry=True,
    ),
    ReasonEntry(
        "shm-missing",
        "infra",
        N_("the node {node} has no /dev/shm, which data loaders and NCCL need"),
        N_("mount it on that node: mount -t tmpfs tmpfs /dev/shm"),
        retry=False,
    ),
    ReasonEntry(
        "gpu-held",
        "infra",
        N_("processes that belong to no run hold GPUs of the node {node} that the run was given"),
        N_("the message names them; end them there, or take the node out of use: tp admin node cordon {node}"),
        retry=True,
    ),
    ReasonEntry(
        "gpu-unknown",
        "infra",
        N_("the node {node} has lost a GPU that the run was given"),
        N_("see nvidia-smi and dmesg on that node: a card that fell off the bus needs a reboot"),
        retry=True,
    ),
)
