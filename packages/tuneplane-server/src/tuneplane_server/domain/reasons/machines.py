"""Memory, disks, limits of the machine, and the network."""

from __future__ import annotations

from tuneplane.i18n import N_
from tuneplane_server.domain.reasons.entry import ReasonEntry, Signal, Weight, anywhere, raised

ENTRIES = (
    ReasonEntry(
        "too-many-open-files",
        "user",
        N_("the run opened more files than it may"),
        N_(
            "close what is done with, use fewer data loader workers, or share tensors between workers through files: torch.multiprocessing.set_sharing_strategy('file_system')"
        ),
        retry=False,
        signs=(anywhere(r"Too many open files|\[Errno 24\]|\(os error 24\)"),),
        seen="OSError: [Errno 24] Too many open files: '/data/part-00731.parquet'",
    ),
    ReasonEntry(
        "shared-memory-full",
        "user",
        N_("the run's shared memory (/dev/shm) is full"),
        N_(
            "use fewer data loader workers (dataloader_num_workers) or smaller batches, or ask for more memory: half of the memory limit is the limit of shared memory"
        ),
        retry=False,
        signs=(
            anywhere(
                r"unable to (?:allocate shared memory|open shared memory|write to file|resize file|mmap)\b.{0,80}torch_\d"
            ),
            anywhere(
                r"is killed by signal: Bus error|workers are out of shared memory|caused by insufficient shared memory"
            ),
            anywhere(r"/dev/shm/\S{0,200}: No space left on device|Error while creating shared memory segment"),  # noqa: S108 - no path
        ),
        seen="RuntimeError: DataLoader worker (pid 229) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
    ),
    ReasonEntry(
        "out-of-memory",
        "user",
        N_("the machine's memory limit of this run was reached"),
        N_("ask for more memory, use fewer data loader workers, or stream the data instead of loading it at once"),
        retry=False,
        signs=(
            anywhere(r"DefaultCPUAllocator: (?:can't allocate|not enough) memory"),
            anywhere(r"is killed by signal: Killed"),
            anywhere(r"std::bad_alloc"),
            anywhere(r"[Oo]ut of memory: Killed process|oom-kill(?:er|:)|Detected \d{1,6} oom[-_]kill"),
            anywhere(r"Task was killed due to the node running low on memory"),
            raised(r"(?:MemoryError|_ArrayMemoryError|ArrowMemoryError)(?::|$)", Weight.CAUSE),
            raised(r"OSError: \[Errno 12\]", Weight.CAUSE),
        ),
        seen="RuntimeError: DataLoader worker (pid 1204) is killed by signal: Killed.",
    ),
    ReasonEntry(
        "disk-quota-exceeded",
        "infra",
        N_("the quota of the file system is used up"),
        N_("free space there, keep fewer checkpoints (save_total_limit), or have the quota raised"),
        retry=False,
        signs=(anywhere(r"Disk quota exceeded|\[Errno 122\]|\(os error 122\)"),),
        seen="OSError: [Errno 122] Disk quota exceeded",
    ),
    ReasonEntry(
        "disk-full",
        "infra",
        N_("there was no space left on the disk"),
        N_("free space in the storage root, or keep fewer checkpoints"),
        retry=True,
        signs=(anywhere(r"No space left on device|\[Errno 28\]|\(os error 28\)"),),
        seen="OSError: [Errno 28] No space left on device",
    ),
    ReasonEntry(
        "storage-read-only",
        "infra",
        N_("the run wrote to a file system that is read-only"),
        N_(
            "write below TUNEPLANE_OUT_DIR: data, volumes and models are mounted read-only. If it is the storage root itself, its disk has failed and was taken out of writing"
        ),
        retry=False,
        signs=(anywhere(r"Read-only file system|\[Errno 30\]|\(os error 30\)"),),
        seen="OSError: [Errno 30] Read-only file system: '/data/cache.arrow'",
    ),
    ReasonEntry(
        "storage-failed",
        "infra",
        N_("the storage root could not be written"),
        N_("check that it is mounted on the node at the same path and writable"),
        retry=True,
        signs=(
            anywhere(r"Stale (?:NFS )?file handle|\[Errno 116\]|\[Errno 121\] Remote I/O error"),
            anywhere(r"\[Errno 5\] Input/output error|\(os error 5\)"),
            anywhere(r"cannot open \S{1,300}/bootstrap\.sh|/bootstrap\.sh: No such file"),
        ),
        seen="OSError: [Errno 116] Stale file handle",
    ),
    ReasonEntry(
        "write-failed",
        "infra",
        N_("a checkpoint could not be written completely"),
        N_(
            "a full disk or quota is the usual cause: look at the free space of the storage root, and keep fewer checkpoints"
        ),
        retry=True,
        signs=(
            raised(r"RuntimeError: \[enforce fail at inline_container\.cc:\d{1,5}\] \. unexpected pos"),
            raised(r"RuntimeError: (?:basic_ios::clear: iostream error|PytorchStreamWriter failed)"),
        ),
        seen="RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534",
    ),
    ReasonEntry(
        "file-too-large",
        "user",
        N_("a file grew beyond the size that a file may have there"),
        N_(
            "save the model in shards (max_shard_size), or have the limit of the file system or the container engine raised"
        ),
        retry=False,
        signs=(anywhere(r"File too large|\[Errno 27\]|\(os error 27\)"),),
        signals=(Signal.SIGXFSZ,),
        seen="OSError: [Errno 27] File too large",
    ),
    ReasonEntry(
        "process-limit",
        "user",
        N_("the run may start no more processes or threads"),
        N_("use fewer workers, and set OMP_NUM_THREADS and TOKENIZERS_PARALLELISM=false in the run's environment"),
        retry=False,
        signs=(
            anywhere(r"can't start new thread|pthread_create failed|Thread creation failed", Weight.RAISED),
            anywhere(r"fork: (?:retry: )?Resource temporarily unavailable", Weight.RAISED),
            raised(r"BlockingIOError: \[Errno 11\]"),
        ),
        seen="RuntimeError: can't start new thread",
    ),
    ReasonEntry(
        "port-taken",
        "infra",
        N_("a network port that the run needs is taken by another program"),
        N_(
            "use the address in TUNEPLANE_MAIN_PROCESS_IP and TUNEPLANE_MAIN_PROCESS_PORT, or port 0, rather than a fixed port: another run may be on the same machine"
        ),
        retry=True,
        signs=(
            raised(r"\w{1,60}: .{0,300}(?:EADDRINUSE|[Aa]ddress already in use)"),
            anywhere(r"error while attempting to bind on address", Weight.RAISED),
        ),
        seen="torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
    ),
    ReasonEntry(
        "network-failed",
        "infra",
        N_("the run could not reach an address on the network"),
        N_("the quoted line names it: check DNS, proxy, certificates and firewall as the node sees them"),
        retry=True,
        signs=(
            raised(
                r"(?:ConnectionError|ConnectError|ConnectTimeout|ReadTimeout|ConnectionRefusedError|ConnectionResetError|URLError|gaierror|SSLError|SSLCertVerificationError|ProxyError|MaxRetryError|NewConnectionError)(?::|$)",
                Weight.GENERAL,
            ),
            anywhere(r"Could not resolve host|Temporary failure in name resolution", Weight.LAST_RESORT),
        ),
        seen="urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>",
    ),
)
