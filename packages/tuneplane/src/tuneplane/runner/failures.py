"""Why a trainer could not be started: a code of the server's reason table and one English sentence."""

from __future__ import annotations

import errno

PACKAGE_CORRUPT = "package-corrupt"  # package, capsule or runner is not what was admitted, or leads out of the lab
ENTRYPOINT_MISSING = "entrypoint-missing"  # the experiment, its script, or the program that runs it
STORAGE_FAILED = "storage-failed"
DISK_FULL = "disk-full"
RUNNER_FAILED = "runner-failed"
CONTAINER_LOST = "container-lost"  # an earlier runner of the attempt died on the way

# Before there is an outcome to write, this prefix on stderr tells the server which line is the reason.
PREFIX = "TUNEPLANE-BOOTSTRAP: "


class StartError(Exception):
    """The trainer was not started; the runner writes this into the outcome and exits with 78."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def storage_error(doing: str, error: OSError) -> StartError:
    """The disk's own word on what went wrong while `doing`."""
    code = DISK_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else STORAGE_FAILED
    return StartError(code, f"{doing}: {error}")
