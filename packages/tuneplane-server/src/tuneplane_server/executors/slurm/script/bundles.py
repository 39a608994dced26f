"""Reads the registered bundle of the profile `oci`: the only part of this room that touches a disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tuneplane_server.executors.slurm.script.oci import CONFIG_FILE
from tuneplane_server.executors.slurm.script.request import ScriptError

_MAX_BYTES = 1024 * 1024


def read_bundle(image: str) -> dict[str, Any]:
    """`config.json` of the bundle in the directory `image`. Raises `ScriptError`: the console must see the path too, as the nodes do."""
    path = Path(image) / CONFIG_FILE
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_MAX_BYTES))
    except OSError as error:
        raise ScriptError(
            f"{path}: {error.strerror}; the console reads the bundle at the same path as the nodes"
        ) from error
    except ValueError as error:
        raise ScriptError(f"{path} is no JSON of at most {_MAX_BYTES} bytes") from error
    if not isinstance(found, dict):
        raise ScriptError(f"{path} is no OCI bundle configuration")
    return found
