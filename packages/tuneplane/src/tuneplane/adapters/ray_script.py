"""The POSIX shell script that `ray.py` gives to every machine of a job that needs a Ray cluster."""

from __future__ import annotations

# Ray gets a session of its own: a stop signals the job's process group, and the driver must find its cluster alive while it uses its grace.
# Nothing here looks for processes by name; only what this script started is ended, by its pid.
SCRIPT = r"""# Ray cluster of one job: sh ray.sh PYTHON RANK COUNT GPUS ADDRESS PORT SECONDS [DRIVER...]
set -u
python=$1 rank=$2 count=$3 gpus=$4 address=$5 port=$6 seconds=$7
shift 7
node='' driver='' watch=''
case $address in *:*) head="[$address]:$port" ;; *) head=$address:$port ;; esac # of IPv6, too

start_node() { # start_node ARGUMENT...: `ray start --block` in the background, in a session of its own
  "$python" -c 'import importlib.util, os, socket, sys
options = sys.argv[1:]
if "--head" in options and importlib.util.find_spec("grpc"):
    # Ray Client, which nobody asked for, would take 10001, and the head of another job here would end over it.
    with socket.socket() as free:
        free.bind(("", 0))
        options.append("--ray-client-server-port=%d" % free.getsockname()[1])
os.setsid()
os.execv(sys.executable, [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *options])' \
    "--num-gpus=$gpus" --disable-usage-stats "$@" </dev/null &
  node=$!
}

# await PID: until it has ended, whatever signals come meanwhile; its exit code in $code. Asked first whether it lives, a shell that
# has noticed its end already would say no, and its code would be lost.
await() {
  code=0
  wait "$1" || code=$?
  while kill -0 "$1" 2>/dev/null; do
    code=0
    wait "$1" || code=$?
  done
}

end_node() {
  [ -n "$node" ] || return 0
  kill -TERM "$node" 2>/dev/null
  await "$node"
  node=''
}

# answers SECONDS: whether the head takes connections within this time.
answers() {
  "$python" -c 'import socket, sys, time
end = time.monotonic() + float(sys.argv[3])
while True:
    try:
        socket.create_connection((sys.argv[1], int(sys.argv[2])), max(0.5, min(5, end - time.monotonic()))).close()
        sys.exit(0)
    except OSError:
        if time.monotonic() >= end:
            sys.exit(1)
        time.sleep(1)' "$address" "$port" "$1"
}

# The driver and what it waits for are in the job's process group and hear a stop themselves; this shell only has to outlive them.
trap : TERM INT HUP

if [ "$rank" -ne 0 ]; then
  if ! answers "$seconds"; then
    echo "ray.sh: the Ray head at $head did not answer within $seconds seconds" >&2
    exit 1
  fi
  start_node "--address=$head"
  # When the head is gone, so is the driver: this machine's Ray is told to end instead of looking for it for a minute.
  "$python" -c 'import os, signal, socket, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
missed = 0
while missed < 3:
    time.sleep(2)
    try:
        socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).close()
        missed = 0
    except OSError:
        missed += 1
try:
    os.kill(int(sys.argv[3]), signal.SIGTERM)
except ProcessLookupError:
    pass' "$address" "$port" "$node" </dev/null &
  watch=$!
  await "$node"
  ended=$code
  kill -KILL "$watch" 2>/dev/null
  if answers 3; then
    echo "ray.sh: Ray on machine $rank ended with $ended while its head was still there" >&2
    [ "$ended" -ne 0 ] || ended=1
    exit "$ended"
  fi
  exit 0
fi

start_node --head "--node-ip-address=$address" "--port=$port" --include-dashboard=false
export RAY_ADDRESS="$head"
"$python" -c 'import os, socket, sys, threading, time
import ray
address, port, wanted, seconds, node = sys.argv[1], int(sys.argv[2]), *map(int, sys.argv[3:6])
end, found = time.monotonic() + seconds, 0
def gone():
    try:
        with open("/proc/%d/stat" % node) as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
def give_up():  # beside the rest: ray.init() may wait for minutes and cannot be told not to
    while not gone() and time.monotonic() < end:
        time.sleep(0.5)
    said = "%d of %d machines joined the Ray cluster within %d seconds" % (found, wanted, seconds)
    print("ray.sh: " + ("the Ray head could not be started; its last lines are above" if gone() else said), file=sys.stderr, flush=True)
    os._exit(1)
threading.Thread(target=give_up, daemon=True).start()
while found < wanted:
    try:
        if not ray.is_initialized():
            socket.create_connection((address, port), 5).close()
            ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False, logging_level="ERROR")
        found = sum(1 for one in ray.nodes() if one["Alive"])
    except (OSError, RuntimeError) as error:
        print("ray.sh: not yet: %s" % error, file=sys.stderr)
    time.sleep(0.5)
ray.shutdown()' "$address" "$port" "$count" "$seconds" "$node" </dev/null &
driver=$!
await "$driver"
if [ "$code" -eq 0 ]; then
  "$@" </dev/null &
  driver=$!
  await "$driver"
fi
ended=$code
end_node
exit "$ended"
"""
