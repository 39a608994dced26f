"""The batch script: one step per machine, watched until all have ended. Pure.

Why a step of its own for each machine: each has its own exit code and output, and one that fails takes no other with it before
its grace is over (`srun --kill-on-bad-exit` kills at once, by SIGKILL).

Why the steps are detached: srun answers a SIGTERM by killing its step (src/srun/libsrun/srun_job.c), and `proctrack/linuxproc` sends the
SIGTERM of a cancel, a time limit or a preemption to everything below the batch script. Out of its process tree, srun gets none, and
the script tells the runners through the spool (runner/claim.py): `DELETE /job/{id}?signal=TERM` reaches only the batch script
on 22.05. Slurm ends the steps themselves when the job ends, and with them srun.
"""

from __future__ import annotations

from tuneplane.contract.words import (
    ENV_MACHINE_COUNT,
    ENV_MACHINE_RANK,
    ENV_MAIN_IP,
    ENV_MAIN_PORT,
    RUNNER_EXIT_PLATFORM,
)
from tuneplane_server.executors.slurm.intents import OVER_FILE
from tuneplane_server.executors.slurm.script.exits import OUTPUT_FILE, STARTED_FILE
from tuneplane_server.executors.slurm.script.launcher import Launcher, exported_names
from tuneplane_server.executors.slurm.script.machine import LIMITS, MAX_FILES, SAY
from tuneplane_server.executors.slurm.script.ports import CHOOSE_PORT
from tuneplane_server.executors.slurm.script.request import ScriptRequest
from tuneplane_server.executors.slurm.script.template import fill

LOOKS = 30  # a second apart, at who has the attempt
SETTLE_SECONDS = 30  # for Slurm to end what was killed

_BEGIN = """\
#!/bin/sh
# Job @JOB@, attempt @ATTEMPT@: one step per machine. Made by the TunePlane console.
set -u
umask 022
"""

_PLACE = """\
node=${SLURMD_NODENAME:-$(hostname 2>/dev/null)}
: "${PATH:=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}"
export PATH
slurm_dir=@SLURM_DIR@
cd "$slurm_dir" || refuse "storage-failed: $slurm_dir cannot be entered on $node; is the storage root mounted there?"
case ${SLURM_RESTART_COUNT:-0} in
  0) ;;
  *) refuse "requeued: Slurm starts this attempt again (restart $SLURM_RESTART_COUNT); a new attempt is the console's to make" ;;
esac
"""

# Told to end: by files that the runners look for.
_TELL = """\
told='' signalled=''
trap 'signalled=1' TERM INT HUP
tell() {
  [ -z "$told" ] || return 0
  told=1
  : >told
  rank=0
  while [ "$rank" -lt "$machines" ]; do
    [ -d "$spool/rank-$rank" ] || { mkdir -p "$spool/rank-$rank" && chmod 777 "$spool/rank-$rank"; }
    : >"$spool/rank-$rank/stop"
    rank=$((rank + 1))
  done
}
"""

# A slurmctld that crashed and lost its newest state starts a job a second time under the same id, beside the first start. That one has
# the attempt; this one passes signals on and ends as it does, so that what Slurm says of the job is true of both.
_ONCE = """\
follow() {
  printf 'tuneplane: Slurm starts job %s again; the first start has the attempt, this one ends with it\\n' "$1" >&2
  last='' same=0 most=$((4 * @SILENT@))
  while [ "$same" -lt "$most" ]; do
    rank=0
    while [ "$rank" -lt "$machines" ] && [ -e "rank-$rank.exit" ]; do rank=$((rank + 1)); done
    if [ "$rank" -eq "$machines" ]; then read -r code _ <rank-0.exit; exit "$code"; fi
    [ -z "$signalled" ] || tell
    beat=$(cat beat 2>/dev/null)
    if [ "$beat" = "$last" ]; then same=$((same + 1)); else last=$beat same=0 most=@SILENT@; fi
    sleep 1 &
    wait $!
  done
  refuse "requeued: Slurm starts job $1 again, and the first start has gone without a word; a new attempt is the console's to make"
}
if ! (set -C; printf '%s\\n' "${SLURM_JOB_ID:-0}" >@STARTED@) 2>/dev/null; then
  looks=0
  while :; do
    earlier=$(cat @STARTED@ 2>/dev/null) || refuse "storage-failed: $slurm_dir cannot be written on $node by $(id -un 2>/dev/null)"
    # It is made first and written then: whoever looks in between sees nothing in it.
    { [ -z "$earlier" ] && [ "$looks" -lt @LOOKS@ ]; } || break
    looks=$((looks + 1))
    sleep 1 &
    wait $!
  done
  [ -n "$earlier" ] || refuse "launch-failed: $slurm_dir/@STARTED@ says of no job that it has this attempt; was the first start cut off, or is the file system full?"
  [ "$earlier" != "${SLURM_JOB_ID:-0}" ] || follow "$earlier"
  refuse "launch-failed: Slurm job $earlier has this attempt; this one, ${SLURM_JOB_ID:-0}, starts nothing"
fi
# Looked for after the attempt was taken. A submit that was on its way, or a slurmctld that lost a cancel, starts what is over.
[ ! -e @OVER@ ] || refuse "launch-failed: this attempt was proved to be over before Slurm started job ${SLURM_JOB_ID:-0}; it starts nothing"
"""

# `$1` is the rank, `$2` where its output goes, the rest is the command. It outlives the batch script's signals, so nobody but it knows the exit code.
_KEEPER = """\
rank=$1 output=$2; shift 2
"$@" &
step=$!
printf '%s %s\\n' "$$" "$step" >"step-$rank.new" && mv "step-$rank.new" "step-$rank.pid"
while :; do
  wait "$step"
  code=$?
  kill -0 "$step" 2>/dev/null || break
done
# It never got a step, for example of a slurmctld that has lost its newest state and takes this job for one that waits.
if [ "$code" -ne 0 ] && [ ! -e "../spool/rank-$rank/claim" ]; then
  said=$(grep -E '^srun: (error|fatal): (Unable to (create|confirm)|Task launch for|Application launch failed)' "$output" 2>/dev/null | tail -n 1)
  [ -z "$said" ] || { printf 'TUNEPLANE-BOOTSTRAP: launch-failed: %s\n' "$said" >&2; code=@EXIT@; }
fi
# srun says 0 as well when it gave up waiting for a step that Slurm kills.
[ "$code" -ne 0 ] || ! grep -q '^srun: error: Timed out waiting for job step' "$output" 2>/dev/null || code=137
told=0
[ ! -e told ] || told=1
printf '%s %s %s\\n' "$code" "$(date +%s)" "$told" >"rank-$rank.exit.new" && mv "rank-$rank.exit.new" "rank-$rank.exit"
"""

# /bin/sh by its path: srun would look `sh` up on this machine and name a place that an image need not have.
_START = """\
@COUNT_NAME@=@MACHINES@
keeper=@KEEPER@
machine=@MACHINE@
detach=
! command -v setsid >/dev/null 2>&1 || detach=setsid
# start RANK GPUS OPTION…
start() {
  rank=$1 gpus=$2; shift 2
  @RANK_NAME@=$rank
  NVIDIA_VISIBLE_DEVICES=void CUDA_DEVICE_ORDER=PCI_BUS_ID
  [ "$gpus" -eq 0 ] || { NVIDIA_VISIBLE_DEVICES=all; set -- "$@" --gres="gpu:$gpus"; }
  export @RANK_NAME@ @COUNT_NAME@ @IP_NAME@ @PORT_NAME@ NVIDIA_VISIBLE_DEVICES CUDA_DEVICE_ORDER
  set -- srun --nodes=1 --ntasks=1 --mem=0 --cpu-bind=none --mpi=none --input=none --kill-on-bad-exit=0 --wait=0 \\
    --export=@EXPORT@ "$@" @OPTIONS@/bin/sh -c "$machine" tuneplane "$rank" "$gpus"
  ( trap '' HUP; $detach sh -c "$keeper" keeper "$rank" "@OUTPUT@" "$@" </dev/null @REDIRECT@& )
}
"""

# Which machine is which: `--relative` only leaves out those before it, and Slurm then takes whichever is idle. What machine 1 sees as
# the address of this one is what all can use: its own name may resolve to 127.0.1.1 here. This machine is machine 0, since its address
# and its port are the job's.
_FIND_MACHINES = """\
: >nodes
# look MACHINES OPTION…
look() {
  count=$1; shift
  found=$(timeout 300 srun --nodes="$count" --ntasks="$count" --ntasks-per-node=1 --overlap --gres=none --mpi=none --input=none --export=NONE \\
    "$@" /bin/sh -c 'printf "%s %s %s\\n" "$SLURM_NODEID" "$SLURMD_NODENAME" "$SLURM_LAUNCH_NODE_IPADDR"' | sort -n)
  [ -n "$found" ] || return 0
  printf '%s\\n' "$found" | grep -F " $node " >>nodes
  printf '%s\\n' "$found" | grep -v -F " $node " >>nodes
}
@LOOKS@[ "$(wc -l <nodes)" -eq "$machines" ] || refuse "launch-failed: no step can be started on each of the $machines machines; srun's words are above"
{ read -r _; read -r _ _ @IP_NAME@; } <nodes
case $@IP_NAME@ in ''|*[!0-9a-fA-F.:]*) refuse "launch-failed: machine 1 does not know the address of $node" ;; esac
# The options of srun for the machine of rank $1.
place() {
  index=0
  while read -r _ name _; do
    [ "$index" -ne "$1" ] || printf '%s\\n' "--nodelist=$name"
    index=$((index + 1))
  done <nodes
}
"""

_WATCH = """\
failed='' over='' first_done=0 ticks=0 kill_at='' give_up_at=''
# Whether the machine has ended; the code is in `code`.
ended() {
  code=137
  if [ ! -e "rank-$1.exit" ]; then
    if [ -e "step-$1.pid" ]; then
      read -r keeper_pid step_pid <"step-$1.pid"
      ! kill -0 "$keeper_pid" 2>/dev/null || return 1
      # Without its keeper a machine goes on; how it ended is then for the runner's own record to say.
      [ -e "rank-$1.exit" ] || ! kill -0 "$step_pid" 2>/dev/null || return 1
    else
      [ "$ticks" -ge 60 ] || return 1
    fi
    # It ended after the first look and before the second, or it was killed and left no word.
    [ -e "rank-$1.exit" ] || printf '137 %s %s\\n' "$(date +%s)" "${told:-0}" >"rank-$1.exit"
  fi
  read -r code _ <"rank-$1.exit"
}
end_steps() {
  rank=0
  while [ "$rank" -lt "$machines" ]; do
    if ! ended "$rank" && [ -e "step-$rank.pid" ]; then
      say "machine $rank did not end within @GRACE@ s and is killed"
      read -r _ step_pid <"step-$rank.pid"
      kill -TERM "$step_pid" 2>/dev/null
    fi
    rank=$((rank + 1))
  done
}
while :; do
  left=0 rank=0
  while [ "$rank" -lt "$machines" ]; do
    if ended "$rank"; then
      [ "$code" -eq 0 ] || failed=1
      [ "$rank" -ne 0 ] || first_done=$((first_done + 1))
    else
      left=$((left + 1))
    fi
    rank=$((rank + 1))
  done
  [ "$left" -gt 0 ] || break
  if [ $((ticks % 10)) -eq 0 ]; then
    printf '%s\\n' "$ticks" >beat
    # Slurm forgot that this runs and ended another start of it: whoever waited for that has the cards given away by now.
    [ ! -e @OVER@ ] || over=1
  fi
  [ -z "$signalled" ] || tell
  if [ -n "$failed" ] || [ -n "$over" ] || [ "$first_done" -gt @LINGER@ ]; then
    tell
    [ -n "$kill_at" ] || kill_at=$((ticks + @GRACE@))
  fi
  if [ -n "$kill_at" ] && [ "$ticks" -ge "$kill_at" ] && [ -z "$give_up_at" ]; then
    end_steps
    give_up_at=$((ticks + @SETTLE@))
  fi
  [ -z "$give_up_at" ] || [ "$ticks" -lt "$give_up_at" ] || break
  sleep 1 &
  wait $!
  ticks=$((ticks + 1))
done
"""

_END = """\
code=137
[ ! -e rank-0.exit ] || read -r code _ <rank-0.exit
exit "$code"
"""

_SHOW = """\
rank=0
while [ "$rank" -lt "$machines" ]; do
  if [ -s "rank-$rank.out" ]; then
    printf -- '---- machine %s\\n' "$rank"
    tail -c 8192 "rank-$rank.out"
  fi
  rank=$((rank + 1))
done
"""


def render_batch(request: ScriptRequest, launcher: Launcher) -> str:
    many = request.machines > 1
    pieces = [
        fill(_BEGIN, {"JOB": _for_comment(request.job_id), "ATTEMPT": str(request.attempt)}),
        fill(SAY, EXIT=RUNNER_EXIT_PLATFORM),
        fill(_PLACE, SLURM_DIR=str(request.slurm_dir)),
        fill("machines=@MACHINES@ spool=@SPOOL@\n", MACHINES=request.machines, SPOOL=str(request.spool)),
        _TELL,
        fill(_ONCE, STARTED=STARTED_FILE, LOOKS=LOOKS, OVER=OVER_FILE, SILENT=max(1, round(request.silent))),
        fill(LIMITS, MAX_FILES=MAX_FILES),
        launcher.before,
        fill(_FIND_MACHINES, {"IP_NAME": ENV_MAIN_IP, "LOOKS": _looks(request)})
        if many
        else f"{ENV_MAIN_IP}=127.0.0.1\n",
        CHOOSE_PORT,
        _start(request, launcher, many),
        *_starts(request),
        _watch(request),
        _SHOW if many else "",
        _END,
    ]
    return "".join(pieces)


def _start(request: ScriptRequest, launcher: Launcher, many: bool) -> str:
    raw = {
        "RANK_NAME": ENV_MACHINE_RANK,
        "COUNT_NAME": ENV_MACHINE_COUNT,
        "IP_NAME": ENV_MAIN_IP,
        "PORT_NAME": ENV_MAIN_PORT,
        "EXPORT": ",".join(("PATH", *exported_names(request.environment_names))),
        "OPTIONS": "".join(f"{option} " for option in launcher.options),
        "OUTPUT": "rank-$rank.out" if many else OUTPUT_FILE,
        "REDIRECT": '>"rank-$rank.out" 2>&1 ' if many else "",
    }
    return fill(
        _START,
        raw,
        MACHINES=request.machines,
        KEEPER=fill(_KEEPER, EXIT=RUNNER_EXIT_PLATFORM),
        MACHINE=launcher.machine,
    )


def _watch(request: ScriptRequest) -> str:
    grace, linger = (max(1, round(seconds)) for seconds in (request.grace, request.linger))
    return fill(_WATCH, OVER=OVER_FILE, GRACE=grace, LINGER=linger, SETTLE=SETTLE_SECONDS)


def _looks(request: ScriptRequest) -> str:
    return "".join(f"look {part.machines}{_component(request, index)}\n" for index, part in enumerate(request.parts))


def _starts(request: ScriptRequest) -> list[str]:
    """By rank: the number of GPUs, and the options that say which machine of the allocation it is."""
    if request.machines == 1:
        return [f"start 0 {request.parts[0].gpus}\n"]
    ranks = [(index, part.gpus) for index, part in enumerate(request.parts) for _ in range(part.machines)]
    return [
        f'start {rank} {gpus}{_component(request, index)} "$(place {rank})"\n'
        for rank, (index, gpus) in enumerate(ranks)
    ]


def _component(request: ScriptRequest, index: int) -> str:
    """The option that names a component of a heterogeneous job."""
    return f" --het-group={index}" if len(request.parts) > 1 else ""


def _for_comment(text: str) -> str:
    return "".join(letter for letter in text if letter.isalnum() or letter in "-_")
