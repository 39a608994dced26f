"""The peers' own environment, from requirements/bench-peers.txt, kept in the development cache."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def peer_python() -> Path:
    """Python of the environment that holds the peers; built on first use (scripts/bench-peers)."""
    done = subprocess.run([ROOT / "scripts/bench-peers"], check=True, stdout=subprocess.PIPE, text=True, timeout=900)
    return Path(done.stdout.strip()) / "bin/python"


def peer_env(folder: Path) -> dict[str, str]:
    """A home of its own and no network: peers must not phone anywhere."""
    return {
        "PATH": f"{peer_python().parent}:/usr/bin:/bin",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "TRACKIO_DIR": str(folder / "trackio"),
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "GRADIO_ANALYTICS_ENABLED": "False",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "1",
    }
