"""`render`: a request in, a batch script out."""

from __future__ import annotations

from collections.abc import Callable

from tuneplane_server.executors.slurm.script import apptainer, oci, pyxis
from tuneplane_server.executors.slurm.script.batch import render_batch
from tuneplane_server.executors.slurm.script.launcher import Launcher
from tuneplane_server.executors.slurm.script.request import Profile, Script, ScriptRequest

_LAUNCHERS: dict[Profile, Callable[[ScriptRequest], Launcher]] = {
    "apptainer": apptainer.launcher,
    "enroot-pyxis": pyxis.launcher,
    "oci": oci.launcher,
}


def render(request: ScriptRequest) -> Script:
    """POSIX sh that holds no secret; the only words of Slurm in it are `srun` and SLURM_ variables. Raises `ScriptError`."""
    request.check()
    launcher = _LAUNCHERS[request.profile](request)
    return Script(render_batch(request, launcher), launcher.files)
