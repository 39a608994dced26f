"""Profile `apptainer`: `apptainer exec` (or `singularity exec`, where only that is there) on each machine, inside its step.

Flags as in apptainer-exec(1) 1.0 to 1.4 and SingularityCE 3.8 to 4: `--cleanenv` drops the host's environment and lets
APPTAINERENV_NAME through as NAME, `--containall` gives namespaces of their own for processes and IPC and a minimal /dev, `--workdir`
puts /tmp and /var/tmp on the node's disk (else they are 64 MB of memory), `--no-home` mounts no home. Without a terminal it passes
signals on to the container's command (internal/pkg/runtime/engine/apptainer/process_linux.go). Whether it uses a user
namespace or its setuid helper is the site's choice and not touched.
"""

from __future__ import annotations

from tuneplane.contract.words import BOOTSTRAP_FILE
from tuneplane_server.executors.slurm.script import machine
from tuneplane_server.executors.slurm.script.launcher import Launcher, passed_names
from tuneplane_server.executors.slurm.script.request import ScriptRequest
from tuneplane_server.executors.slurm.script.template import fill, word

_FIND = """\
runtime='' image=@IMAGE@ bootstrap=@BOOTSTRAP@
for candidate in apptainer singularity; do
  if command -v "$candidate" >/dev/null 2>&1; then runtime=$candidate; break; fi
done
[ -n "$runtime" ] || refuse "launch-failed: neither apptainer nor singularity on PATH=$PATH of $node"
[ -r "$image" ] || refuse "launch-failed: the image $image cannot be read on $node"
[ -r "$bootstrap" ] || refuse "storage-failed: $bootstrap cannot be read on $node; is the storage root mounted there?"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/tuneplane-${SLURM_JOB_ID:-0}-$rank.XXXXXX") || refuse "storage-failed: no directory can be made in ${TMPDIR:-/tmp} on $node"
"""

# By name only: a value never is an argument. NO_EVAL: else a `$` in a value is expanded by the container's shell.
_BY_NAME = """\
APPTAINER_NO_EVAL=1 SINGULARITY_NO_EVAL=1
export APPTAINER_NO_EVAL SINGULARITY_NO_EVAL
prefix=APPTAINERENV
[ "$runtime" = apptainer ] || prefix=SINGULARITYENV
for name in @NAMES@; do
  eval "[ -z \\"\\${$name+set}\\" ] || { ${prefix}_$name=\\$$name; export ${prefix}_$name; }"
done
"""

_START = """\
set -- "$runtime" exec --cleanenv --containall --no-home --workdir "$scratch" --pwd /tmp
[ "$gpus" -eq 0 ] || set -- "$@" --nv
[ ! -d /dev/infiniband ] || set -- "$@" --bind /dev/infiniband
@BINDS@run "$@" "$image" sh -c @INSIDE@ sh "$bootstrap"
code=$?
rm -rf "$scratch"
exit "$code"
"""


def launcher(request: ScriptRequest) -> Launcher:
    bootstrap = str(request.capsule / BOOTSTRAP_FILE)
    names = " ".join(passed_names(request.environment_names))
    binds = "".join(
        f'set -- "$@" --bind {word(f"{mount.source}:{mount.target}{':ro' if mount.read_only else ''}")}\n'
        for mount in request.mounts()
    )
    start = fill(_START, {"BINDS": binds}, INSIDE=machine.home_and_start())
    text = (
        machine.head()
        + fill(_FIND, IMAGE=request.image, BOOTSTRAP=bootstrap)
        + fill(_BY_NAME, {"NAMES": names})
        + machine.RUN
        + start
    )
    return Launcher(machine=text)
