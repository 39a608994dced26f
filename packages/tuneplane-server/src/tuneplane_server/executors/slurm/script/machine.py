"""Shell text that every machine of a job runs, inside or outside of its container. Pure.

Signals (slurm-wlm 22.05 and 24.11, src/plugins/proctrack): with `proctrack/cgroup` a SIGTERM goes to the step's first process only,
with `linuxproc` and `pgid` to all of them. So the first process must outlive it and pass it on, and getting it twice must do no harm.
"""

from __future__ import annotations

from tuneplane.contract.words import RUNNER_EXIT_PLATFORM
from tuneplane_server.executors.slurm.script.template import fill

MAX_FILES = 1_048_576  # some programs close every number up to the limit; a billion of them takes minutes

SAY = """\
say() { printf 'TUNEPLANE-BOOTSTRAP: %s\\n' "$*" >&2; }
refuse() { say "$@"; exit @EXIT@; }
"""

LIMITS = """\
# Registered memory of InfiniBand and of pinned buffers counts as locked; what the site forbids stays as it is.
ulimit -l unlimited 2>/dev/null
files=$(ulimit -H -n 2>/dev/null)
case $files in unlimited) files=@MAX_FILES@ ;; ''|*[!0-9]*) files= ;; esac
if [ -n "$files" ]; then
  [ "$files" -le @MAX_FILES@ ] || files=@MAX_FILES@
  ulimit -S -n "$files" 2>/dev/null
fi
"""

_GPUS = """\
count() { (IFS=,; set -f; set -- $1; echo $#); }
case ${CUDA_VISIBLE_DEVICES:-} in
  NoDevFiles) have=0 ;;
  '') have=${SLURM_GPUS_ON_NODE:-0} ;;
  *) have=$(count "$CUDA_VISIBLE_DEVICES") ;;
esac
case $have in ''|*[!0-9]*) have=0 ;; esac
[ "$have" -ge "$gpus" ] || refuse "gpus-missing: machine $rank ($node) has $have of the $gpus GPUs it needs (CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-})"
"""

# A TERM before there is a child ends the machine; one that comes while the child starts is passed on when it has.
RUN = """\
child='' told=''
trap 'told=1; [ -z "$child" ] || kill -TERM "$child" 2>/dev/null' TERM INT HUP
run() {
  [ -z "$told" ] || return 143
  "$@" </dev/null &
  child=$!
  [ -z "$told" ] || kill -TERM "$child" 2>/dev/null
  # A trapped signal ends `wait` early; the code counts only when the child is gone.
  while :; do
    wait "$child"
    code=$?
    kill -0 "$child" 2>/dev/null || return "$code"
  done
}
"""

_HEAD = """\
set -u
umask 022
rank=$1 gpus=$2 node=${SLURMD_NODENAME:-$(hostname 2>/dev/null)}
"""

# Tried, not asked for: a mapped root may write to everything and to no read-only file system.
_HOME = """\
case ${HOME:-/} in
  /) HOME='' ;;
  *) if (: >"$HOME/.tuneplane-$$") 2>/dev/null; then rm -f "$HOME/.tuneplane-$$"; else HOME=''; fi ;;
esac
[ -n "$HOME" ] || HOME=$(mktemp -d "${TMPDIR:-/tmp}/home.XXXXXX") || refuse "storage-failed: no home directory can be made in ${TMPDIR:-/tmp} on $node"
export HOME
"""

# Lightning, Accelerate and MPI take these for an order to start as many ranks as Slurm has tasks.
_FORGET_SLURM = """\
for name in $(env | sed -n 's/^\\(SLURM[A-Z0-9_]*\\|SRUN_[A-Z0-9_]*\\|PMIX*_[A-Z0-9_]*\\)=.*/\\1/p'); do unset "$name"; done
"""


def head() -> str:
    """Who this machine is, its limits, its cards; refuses when there are too few."""
    return _HEAD + fill(SAY, EXIT=RUNNER_EXIT_PLATFORM) + fill(LIMITS, MAX_FILES=MAX_FILES) + _GPUS


def inside(capsule_bootstrap: str, check: str = "") -> str:
    """For the profiles where Slurm itself puts the step into the container: this text is its first process. `check`: shell text."""
    return (
        head() + check + _HOME + _FORGET_SLURM + RUN + fill("run sh @BOOTSTRAP@\nexit\n", BOOTSTRAP=capsule_bootstrap)
    )


def home_and_start() -> str:
    """What a container's first process does where this text is started by the runtime: a home to write to, then `$1`."""
    return fill(SAY, EXIT=RUNNER_EXIT_PLATFORM) + "node=${HOSTNAME:-this machine}\n" + _HOME + 'exec sh "$1"\n'
