"""What Slurm would refuse late, crash on or misread is refused here, before anything is sent: pure."""

from __future__ import annotations

import re

from tuneplane_server.executors.slurm.rest.models import SlurmError, Submission

MAX_SCRIPT = 4 * 1024 * 1024  # slurm.conf: max_script_size, "Pathname too long" (2012) over it
MAX_COMPONENTS = 128  # slurm.h: MAX_HET_JOB_COMPONENTS
MAX_WARNING = 65535  # seconds, sixteen bits
_WARNINGS = frozenset({"TERM", "INT", "HUP", "USR1", "USR2"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check(job: Submission) -> None:
    """Raises SlurmError `refused`."""
    for wrong, words in (
        (not job.script.startswith("#!"), "the script does not begin with #!"),
        (len(job.script.encode()) >= MAX_SCRIPT, f"the script has {MAX_SCRIPT} bytes or more"),
        ("\0" in job.script or "\r\n" in job.script, "the script has NUL bytes or line ends of DOS"),
        (not job.directory.startswith("/"), "the directory is not absolute"),  # 22.05 would take slurmrestd's own
        (not job.environment, "the environment is empty"),
        (not 1 <= len(job.components) <= MAX_COMPONENTS, f"there are not 1 to {MAX_COMPONENTS} components"),
        (any(part.nodes < 1 or part.gpus < 0 for part in job.components), "a component has no machine"),
        (_odd_variable(job) is not None, f"the environment has a variable that cannot be: {_odd_variable(job)}"),
        (not _known_warning(job), "the warning is not one of the signals and times that Slurm sends"),
    ):
        if wrong:
            raise SlurmError("refused", words)


def _odd_variable(job: Submission) -> str | None:
    """Only its name: the value may be a secret."""
    odd = (name for name, value in job.environment.items() if not _NAME.fullmatch(name) or "\0" in value)
    return next((repr(name[:80]) for name in odd), None)


def _known_warning(job: Submission) -> bool:
    return job.warning is None or (job.warning[0] in _WARNINGS and 0 < job.warning[1] <= MAX_WARNING)
