# Sourced by the scripts beside it: where things are, how to speak, how to look for interpreters.
# shellcheck shell=bash disable=SC2034

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${TUNEPLANE_DEV_CACHE:-${HOME:-/root}/.cache/tuneplane-dev}
# Where the interpreter and uv are known, nothing may be downloaded behind our back.
export UV_PYTHON_DOWNLOADS=never UV_NO_PROGRESS=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }
die() { say "$*"; exit 1; }

# True where we may install system packages: Debian or a child of it, as root, with apt.
can_install_packages() { [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && command -v apt-get >/dev/null; }

# with_lock FILE COMMAND...: run COMMAND while no other process holds FILE. Waits at most 15 minutes.
with_lock() {
  local file=$1; shift
  mkdir -p "$(dirname "$file")"
  (
    flock -w 900 9 || die "another process has held $file for 15 minutes; stop it and try again"
    "$@"
  ) 9>"$file"
}

# digest_of FILE...: one hash over the names and contents of files, for stamps.
digest_of() { (cd "$ROOT" && sha256sum -- "$@" | sha256sum | cut -d' ' -f1); }
