"""Python environments that play images: real torch and TRL, and the frameworks' own parsers; nothing of ours."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.services.process import ServiceMissingError
from tests.services.session import ROOT


def find_training_runtime() -> Path:
    """The environment in the cache, built by the first caller (minutes) and kept for later runs."""
    return built("the training runtime", "scripts/training-runtime")


def find_framework_env(name: str) -> Path:
    """The environment of one framework's parser, over the training runtime; built by the first caller and kept."""
    return built(f"the environment of {name}'s parser", "scripts/framework-env", name)


def built(what: str, script: str, *arguments: str) -> Path:
    """The path that a script of scripts/ prints when it has built something in the cache, or found it there."""
    result = subprocess.run(
        [str(ROOT / script), *arguments],
        check=False, capture_output=True, text=True, timeout=1500, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if result.returncode:
        raise ServiceMissingError(f"{what} cannot be built: {result.stderr.strip()[-1500:]}")
    return Path(result.stdout.strip())
