"""Why a trainer could not be started: a code of the reason table and one English sentence."""

from __future__ import annotations

CAPSULE_INVALID = "capsule-invalid"  # capsule.json missing, unreadable, of another version or of another job
RUNNER_CORRUPT = "runner-corrupt"  # runner.pex is not the one the capsule names
PACKAGE_MISSING = "package-missing"
PACKAGE_CORRUPT = "package-corrupt"  # digest differs, or no gzipped tar
PACKAGE_UNSAFE = "package-unsafe"  # absolute path, `..`, link out, device, too large
EXPERIMENT_MISSING = "experiment-missing"
ENTRYPOINT_MISSING = "entrypoint-missing"
ENVIRONMENT_INVALID = "environment-invalid"
DISK_FULL = "disk-full"
START_FAILED = "start-failed"


class StartError(Exception):
    """The trainer was not started; the runner writes this into the outcome and exits with 78."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
