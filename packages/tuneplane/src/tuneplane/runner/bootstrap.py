"""`bootstrap.sh`: the first thing that runs in the training image. POSIX sh; nothing is assumed but `sh` and some Python 3.9."""

from __future__ import annotations

from tuneplane.contract.names import is_sha256
from tuneplane.contract.words import CAPSULE_FILE, ENV_CAPSULE_DIR, RUNNER_EXIT_PLATFORM, RUNNER_FILE

_SCRIPT = """\
#!/bin/sh
# Starts the TunePlane runner of one job. Made by the console; the digests below are of the files beside it.
set -u
# The server looks for this prefix when a run ends before the runner could leave a word.
say() { printf 'TUNEPLANE-BOOTSTRAP: %s\\n' "$*" >&2; }
stop() { say "$@"; exit @EXIT@; }

capsule=${@CAPSULE_DIR@:-}
if [ -z "$capsule" ]; then
  case $0 in */*) capsule=${0%/*} ;; *) capsule=. ;; esac
fi
[ -r "$capsule/@CAPSULE@" ] || stop "storage-failed: $capsule/@CAPSULE@ cannot be read; is the storage root mounted here?"
[ -r "$capsule/@RUNNER@" ] || stop "storage-failed: $capsule/@RUNNER@ cannot be read; is the storage root mounted here?"

# A shim on PATH may be there and fail, a stripped Python may lack zlib: only running it tells.
usable() {
  "$1" -I -S -c 'import sys, zlib, json, hashlib, selectors; sys.exit(sys.version_info < (3, 9))' >/dev/null 2>&1
}
python=
for candidate in "${TUNEPLANE_PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python; do
  [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 || continue
  if usable "$candidate"; then python=$candidate; break; fi
  [ "$candidate" != "${TUNEPLANE_PYTHON:-}" ] || say "TUNEPLANE_PYTHON=$candidate is no Python 3.9 or newer; looking further"
done
[ -n "$python" ] || stop "python-missing: no Python 3.9 or newer in this image (looked at TUNEPLANE_PYTHON, python3, python3.9 to python3.14, python on PATH=$PATH)"

digest() {
  if command -v sha256sum >/dev/null 2>&1; then
    found=$(sha256sum <"$1") && printf '%s' "${found%% *}"
  else
    "$python" -I -S -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$1"
  fi
}
[ "$(digest "$capsule/@CAPSULE@")" = @CAPSULE_SHA256@ ] || stop "package-corrupt: $capsule/@CAPSULE@ is not the file the console wrote"
[ "$(digest "$capsule/@RUNNER@")" = @RUNNER_SHA256@ ] || stop "package-corrupt: $capsule/@RUNNER@ is not the file the console wrote"

# Isolated (-I), without site (-S): a PYTHONPATH or a sitecustomize meant for the trainer must not reach the runner.
exec "$python" -I -S -B -X utf8 "$capsule/@RUNNER@" "$capsule"
"""


def render_bootstrap(capsule_sha256: str, runner_sha256: str) -> str:
    """The script for a capsule and a runner with these digests. Raises `ValueError` for what is no digest."""
    if not is_sha256(capsule_sha256) or not is_sha256(runner_sha256):
        raise ValueError("digests must be 64 lower-case hex digits")
    values = {
        "@EXIT@": str(RUNNER_EXIT_PLATFORM),
        "@CAPSULE_DIR@": ENV_CAPSULE_DIR,
        "@CAPSULE@": CAPSULE_FILE,
        "@RUNNER@": RUNNER_FILE,
        "@CAPSULE_SHA256@": capsule_sha256,
        "@RUNNER_SHA256@": runner_sha256,
    }
    script = _SCRIPT
    for mark, value in values.items():
        script = script.replace(mark, value)
    return script
