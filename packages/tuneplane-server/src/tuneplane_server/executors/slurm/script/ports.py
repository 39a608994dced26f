"""A port of the batch host for the job's main process. Shell text."""

from __future__ import annotations

from tuneplane.contract.words import ENV_MAIN_PORT

# Below the usual ephemeral range (32768). A job has twenty ports to itself, picked by Slurm's number of it: frameworks take the next
# ones too, and two jobs that start on one node in the same second must not choose the same. Taken ones are seen in /proc.
_FIRST, _JOBS, _EACH = 20_000, 600, 20

CHOOSE_PORT = f"""\
sockets=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null)
port=$(({_FIRST} + ${{SLURM_JOB_ID:-0}} % {_JOBS} * {_EACH})) tries=0
while [ "$tries" -lt {_JOBS * _EACH} ]; do
  case $sockets in *":$(printf %04X "$port") "*) ;; *) break ;; esac
  port=$(({_FIRST} + (port - {_FIRST} + 1) % {_JOBS * _EACH})) tries=$((tries + 1))
done
{ENV_MAIN_PORT}=$port
"""
