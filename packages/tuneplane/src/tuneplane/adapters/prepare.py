"""What must lie in place before a trainer starts: a checkpoint to go on from, in the trainer's own folder; the experiment's files, where all
machines of a Ray cluster see them. One POSIX sh script, run on machine 0, that ends as the program it was given."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

from tuneplane.adapters.command import Machine
from tuneplane.adapters.experiment import experiment_dir

SCRIPT_FILE = "prepare.sh"  # below the work dir
SHARED_DIR = "experiment"  # below the out dir

_SCRIPT = """\
#!/bin/sh
# prepare.sh [copy FROM TO | write TEXT FILE]... -- PROGRAM ARGUMENT...: put things in place, then become the program.
set -eu

copy() {
  [ ! -e "$2" ] || return 0
  mkdir -p "$(dirname "$2")"
  rm -rf "$2.part"
  # Second names for the same data where the file system can: checkpoints are large, and trainers delete theirs but never write into one.
  cp -al "$1" "$2.part" 2>/dev/null || { rm -rf "$2.part"; cp -R "$1" "$2.part"; }
  mv "$2.part" "$2"
}

write() {
  mkdir -p "$(dirname "$2")"
  printf '%s' "$1" >"$2.part"
  mv "$2.part" "$2"
}

while [ "$#" -gt 0 ]; do
  case $1 in
    copy | write) "$1" "$2" "$3"; shift 3 ;;
    --) shift; break ;;
    *) echo "prepare.sh: $1?" >&2; exit 64 ;;
  esac
done
exec "$@"
"""


class Preparation:
    """Collects what is needed; `wrap` gives the command that does it first, and the program alone when there is nothing to do."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._steps: List[str] = []

    def copy(self, source: str, target: str) -> None:
        """A file or directory, whole or not at all; left alone when `target` is there."""
        self._steps += ["copy", source, target]

    def write(self, text: str, target: str) -> None:
        self._steps += ["write", text, target]

    def wrap(self, program: Sequence[str]) -> Tuple[List[str], Dict[str, str]]:
        """(argv, files of the command)."""
        if not self._steps or self._machine.rank != 0:
            return list(program), {}
        script = f"{self._machine.work_dir}/{SCRIPT_FILE}"
        return ["sh", script, *self._steps, "--", *program], {SCRIPT_FILE: _SCRIPT}

    def shared_experiment(self, capsule: Mapping[str, Any]) -> str:
        """Where every machine finds the experiment's files: each machine's work dir has a path of its own, the out dir the same path."""
        own = f"{self._machine.work_dir}/{experiment_dir(capsule)}"
        if self._machine.count == 1:
            return own
        shared = capsule["paths"]["out_dir"] + "/" + SHARED_DIR
        if shared not in self._steps:
            self.copy(own, shared)
        return shared
