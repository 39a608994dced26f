"""The batch script of a Slurm job: pure rendering, one module per container runtime profile."""

from __future__ import annotations

from tuneplane_server.executors.slurm.script.bundles import read_bundle
from tuneplane_server.executors.slurm.script.exits import (
    STARTED_FILE,
    MachineExit,
    exit_file,
    output_file,
    parse_exit,
)
from tuneplane_server.executors.slurm.script.rendering import render
from tuneplane_server.executors.slurm.script.request import Part, Profile, Script, ScriptError, ScriptRequest

__all__ = [
    "STARTED_FILE",
    "MachineExit",
    "Part",
    "Profile",
    "Script",
    "ScriptError",
    "ScriptRequest",
    "exit_file",
    "output_file",
    "parse_exit",
    "read_bundle",
    "render",
]
