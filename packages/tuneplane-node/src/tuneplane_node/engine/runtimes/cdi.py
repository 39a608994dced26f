"""NVIDIA cards as the machine's CDI files offer them to Podman.

Container Device Interface: https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md . The files are
written by `nvidia-ctk cdi generate`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

KIND = "nvidia.com/gpu"
CDI_DIRS = (Path("/etc/cdi"), Path("/var/run/cdi"))
_MAX_FILE = 16 * 1024 * 1024


def nvidia_devices(directories: Iterable[Path] = CDI_DIRS) -> frozenset[str]:
    """The device names behind `nvidia.com/gpu=`: indexes, UUIDs, `all`. Files that cannot be read offer nothing."""
    names: set[str] = set()
    for directory in directories:
        for path in sorted(directory.glob("*.yaml")) + sorted(directory.glob("*.json")):
            spec = _read(path)
            if isinstance(spec, dict) and spec.get("kind") == KIND:
                names |= {str(device["name"]) for device in spec.get("devices") or () if "name" in device}
    return frozenset(names)


def _read(path: Path) -> Any:
    import yaml  # only a Podman machine that is asked for cards comes here

    try:
        if path.stat().st_size > _MAX_FILE:
            return None
        text = path.read_text()
        return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError):
        return None
