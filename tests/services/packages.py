"""System packages for the services, through the one script that names them."""

from __future__ import annotations

import subprocess

from tests.services.process import ServiceMissingError
from tests.services.session import ROOT


def require_packages(*groups: str) -> None:
    """Install the groups of scripts/system-packages where that is allowed; else say what is missing."""
    result = subprocess.run(
        [str(ROOT / "scripts/system-packages"), *groups],
        check=False,
        capture_output=True,
        text=True,
        timeout=900,
        stdin=subprocess.DEVNULL,
    )
    if result.returncode:
        raise ServiceMissingError(result.stderr.strip()[-1500:])
