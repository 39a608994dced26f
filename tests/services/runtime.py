"""The Python environment that plays the training image: real torch and TRL, nothing of ours."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.services.process import ServiceMissingError
from tests.services.session import ROOT


def find_training_runtime() -> Path:
    """The environment in the cache, built by the first caller (minutes) and kept for later runs."""
    result = subprocess.run(
        [str(ROOT / "scripts/training-runtime")],
        check=False, capture_output=True, text=True, timeout=1500, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if result.returncode:
        raise ServiceMissingError(f"the training runtime cannot be built: {result.stderr.strip()[-1500:]}")
    return Path(result.stdout.strip())
