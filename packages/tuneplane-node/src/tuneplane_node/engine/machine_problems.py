"""What can be wrong with a machine that is to be a node: storage, network, clock, limits; a part of the table in `problems.py`."""

from __future__ import annotations

from tuneplane.i18n import N_
from tuneplane_node.engine.problem import Problem

MACHINE_PROBLEMS: dict[str, Problem] = {
    # the storage root, which has to be the same directory on the console and on every node
    "storage-missing": Problem(
        "infra",
        N_("The storage root {path} does not exist on {host}."),
        N_("Mount the shared storage there, at the same path as on the console; then this clears by itself."),
        retry=True,
    ),
    "storage-unusable": Problem(
        "infra",
        N_("The storage root {path} cannot be used on {host}."),
        N_(
            "Check the mount (a stale NFS handle needs a remount) and that the user of the daemon may read and write there."
        ),
        retry=True,
    ),
    "storage-read-only": Problem(
        "infra",
        N_("The storage root {path} cannot be written on {host}: it is mounted read-only."),
        N_("Mount it read-write, and export it so: jobs write their checkpoints there."),
        retry=True,
    ),
    "storage-other": Problem(
        "infra",
        N_(
            "{path} on {host} (device {device}, {fs_type}, from {source}) is not the console's storage root: what the console wrote is not there."
        ),
        N_(
            "Compare findmnt -T {path} on both machines and mount the same export on both. A directory of the same name is not enough."
        ),
        retry=True,
    ),
    "storage-root-differs": Problem(
        "infra",
        N_("The console's storage root is {console}, that of {host} is {path}."),
        N_("Set TUNEPLANE_STORAGE_ROOT to the same path on both: jobs find their files by it."),
    ),
    "storage-challenge": Problem(
        "platform",
        N_("The console asked for a file that no proof of storage has: {path}"),
        N_("Nothing was read. Check that console and node are of the same version."),
    ),
    "storage-ready": Problem(
        "infra", N_("The storage root {path} is there and writable ({fs_type}, from {source})."), "", level="info"
    ),
    # jobs of a node id that is not this one
    "strangers-running": Problem(
        "infra",
        N_("{count} jobs that were launched under another node id run on {host}: {names}."),
        N_(
            "When the state directory of this machine was lost, the console ends what it gave up here by itself. Jobs of another "
            "installation are that one's. What is left is ended by hand: docker rm -f, or kill."
        ),
        level="warning",
    ),
    "card-held-by-stranger": Problem(
        "infra",
        N_("Card {index} of {host} is held by {name}, which was launched under another node id ({instance})."),
        N_(
            "When the state directory of this machine was lost, the console ends what it gave up there by itself; else see "
            "tuneplane-node check."
        ),
        retry=True,
    ),
    # ports of jobs
    "job-ports-exhausted": Problem(
        "infra",
        N_("Every port from {first} to {last} is taken on this machine."),
        N_("See who holds them (ss -tanp); the ports of jobs that ended are given back when they are cleaned up."),
        retry=True,
    ),
    "job-port-taken": Problem(
        "infra",
        N_("Port {port}, which was reserved for the job, has been taken by another program."),
        N_("The console asks again and gets another one. Keep other services off the ports from 20000 to 29999."),
        retry=True,
    ),
    "job-port-not-reserved": Problem(
        "platform",
        N_("No port is reserved for attempt {attempt} of {job} on this machine."),
        N_("The console asks again and reserves one."),
        retry=True,
    ),
    # before a trainer starts
    "ingest-dns": Problem(
        "infra",
        N_("{host} cannot find the address of {name}, where jobs send their logs and metrics."),
        N_(
            "Mend the name resolution of this machine (/etc/resolv.conf, /etc/hosts), or give TUNEPLANE_INGEST_URL an IP address."
        ),
        retry=True,
    ),
    "ingest-unreachable": Problem(
        "infra",
        N_("{host} cannot connect to {address}, where jobs send their logs and metrics."),
        N_(
            "Set TUNEPLANE_INGEST_URL on the console to an address that the nodes can reach, and open its port in the firewalls."
        ),
        retry=True,
    ),
    "clock-offset": Problem(
        "infra",
        N_("The clock of {host} differs from the console's by {seconds} s."),
        N_(
            "Let both follow a time server (timedatectl set-ntp true, or chrony): curves and time limits go by these clocks."
        ),
        retry=True,
    ),
    "disk-low": Problem(
        "infra",
        N_("Only {free} GiB are free at {path} on {host}; {needed} GiB are needed."),
        N_("Free some space there: old checkpoints below the storage root, unused images of the container engine."),
        retry=True,
    ),
    "shm-missing": Problem(
        "infra",
        N_("{host} has no /dev/shm, which data loaders and NCCL need."),
        N_("Mount it: mount -t tmpfs tmpfs /dev/shm"),
    ),
    "shm-small": Problem(
        "infra",
        N_("The shared memory of {host} (/dev/shm) holds only {size} GiB; data loaders and NCCL may need more."),
        N_("Enlarge it: mount -o remount,size=50% /dev/shm"),
        level="warning",
    ),
    "main-unreachable": Problem(
        "infra",
        N_("{host} reaches the first machine of the job at none of its addresses: {addresses}"),
        N_(
            "Open the ports from 20000 to 29999 between the nodes, and check that they share a network. Each attempt is shown with this message."
        ),
        retry=True,
    ),
    # what `tuneplane-node check` looks at besides
    "node-not-set-up": Problem(
        "infra",
        N_("This machine is not set up as a node yet: no address of a console, no token."),
        N_(
            "For tuneplane-node serve set TUNEPLANE_STORAGE_ROOT, TUNEPLANE_AGENT_TOKEN_FILE and TUNEPLANE_CONSOLE_URL; jobs of a console on this machine need none of them."
        ),
        level="info",
    ),
    "token-file-open": Problem(
        "infra",
        N_("The token file {path} can be read by other users of this machine (mode {mode})."),
        N_("Whoever has the token can start programs on every node: chmod 600 {path}"),
        level="warning",
    ),
    "token-ready": Problem("infra", N_("The token of console and nodes is there."), "", level="info"),
    "console-unreachable": Problem(
        "infra",
        N_("The console at {url} cannot be reached from this machine."),
        N_(
            "Check TUNEPLANE_CONSOLE_URL, that the console listens on an address of the network (TUNEPLANE_HOST), and the firewalls between."
        ),
    ),
    "console-answer": Problem(
        "infra",
        N_("What answers at {url} is no TunePlane console."),
        N_("Set TUNEPLANE_CONSOLE_URL to the address of the console, as a browser has it."),
    ),
    "console-ready": Problem(
        "infra", N_("The console at {url} answers; the clocks differ by {seconds} s."), "", level="info"
    ),
    "console-token": Problem(
        "infra",
        N_("The console at {url} does not accept this node: {why}."),
        N_(
            "Give TUNEPLANE_AGENT_TOKEN or TUNEPLANE_AGENT_TOKEN_FILE the same value here and on the console, and set TUNEPLANE_EXECUTOR=agent there."
        ),
    ),
    "console-token-ready": Problem("infra", N_("The console accepts the token."), "", level="info"),
    "node-port-ours": Problem("infra", N_("The daemon of a node listens on port {port} already."), "", level="info"),
    "node-port-free": Problem("infra", N_("Port {port} is free."), "", level="info"),
    "limit-low": Problem(
        "infra",
        N_("The limit {limit} of this user is {value}; training jobs need {wanted} or more."),
        N_(
            "Raise it in /etc/security/limits.conf, or with {directive} in the unit of the service and of the container engine."
        ),
        level="warning",
    ),
    "gpu-held": Problem(
        "infra",
        N_("Processes still hold GPU {gpus}: {holders}"),
        N_(
            "The cards stay with the job until nothing holds them. If a process hangs in the driver, see dmesg and reset the card or reboot."
        ),
        retry=True,
    ),
    "images-not-pruned": Problem(
        "infra",
        N_("The images of this machine cannot be looked through, so none is removed."),
        N_("The container engine's own words are shown with this message; it is tried again."),
        retry=True,
        level="warning",
    ),
    "gpu-ready": Problem("infra", N_("{count} GPUs answer ({names}), driver {driver}."), "", level="info"),
    "gpu-none": Problem("infra", N_("This machine has no NVIDIA GPU; jobs of CPU profiles can run."), "", level="info"),
    "gpu-no-driver": Problem(
        "infra",
        N_("There is an NVIDIA card in this machine, and no nvidia-smi."),
        N_("Install the NVIDIA driver with its tools, and the NVIDIA Container Toolkit for the container engine."),
        level="warning",
    ),
}
