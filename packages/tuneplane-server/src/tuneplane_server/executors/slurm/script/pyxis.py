"""Profile `enroot-pyxis`: Slurm starts the step inside the container, through NVIDIA's SPANK plugin.

Options as in pyxis' wiki page Usage and args.c (github.com/NVIDIA/pyxis, 0.11 and newer): a mount is `SRC:DST:FLAGS` with flags joined
by `+`, and its path goes into an fstab line, so it holds no blank. The step's environment reaches the container; `--container-env`
names what the image must not override. Cards come through enroot's NVIDIA hook, by NVIDIA_VISIBLE_DEVICES.
"""

from __future__ import annotations

from tuneplane.contract.words import BOOTSTRAP_FILE
from tuneplane_server.executors.slurm.script import machine
from tuneplane_server.executors.slurm.script.launcher import Launcher, passed_names
from tuneplane_server.executors.slurm.script.request import ScriptError, ScriptRequest
from tuneplane_server.executors.slurm.script.template import word

_BEFORE = """\
case $(srun --help 2>/dev/null) in
  *--container-mounts*) ;;
  *) refuse "launch-failed: srun on $node has no option --container-mounts; the profile enroot-pyxis needs the pyxis plugin there" ;;
esac
"""


def launcher(request: ScriptRequest) -> Launcher:
    mounts = [f"{mount.source}:{mount.target}:rbind+{'ro' if mount.read_only else 'rw'}" for mount in request.mounts()]
    for path in (*mounts, request.image):
        if any(letter.isspace() for letter in path):
            raise ScriptError(f"the path {path[:200]!r} holds a blank, which enroot cannot mount")
    options = (
        f"--container-image={word(request.image)}",
        f"--container-mounts={word(','.join(mounts))}",
        "--container-workdir=/tmp",
        "--no-container-mount-home",
        "--no-container-entrypoint",
        f"--container-env={','.join(passed_names(request.environment_names))}",
    )
    text = machine.inside(str(request.capsule / BOOTSTRAP_FILE))
    return Launcher(machine=text, options=options, before=_BEFORE)
