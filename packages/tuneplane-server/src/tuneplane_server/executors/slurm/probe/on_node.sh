#!/bin/sh
# A look from a compute node. All it leaves is one file in the probe's own directory; what that cannot carry is in the exit code.
export LC_ALL=C
root=$TUNEPLANE_PROBE_ROOT place=$TUNEPLANE_PROBE_PLACE url=$TUNEPLANE_PROBE_URL
storage=0 nonce='' http_tool='' http_status='' http_said='' container='' container_problem=''

look_at_storage() {  # 1 not there, 2 another directory, 3 not allowed, 4 cannot be written
  [ -d "$root" ] || { storage=1; return; }
  [ -x "$root" ] || { storage=3; return; }
  if [ -d "$root/projects" ] && [ ! -x "$root/projects" ]; then storage=3; return; fi
  tries=0
  until [ -d "$place" ] || [ "$tries" -ge 5 ]; do  # a network file system believes for a moment that it is not there
    ls "$root" "${place%/*}" >/dev/null 2>&1
    sleep 1
    tries=$((tries + 1))
  done
  [ -d "$place" ] || { storage=2; return; }
  nonce=$(cat "$place/console" 2>/dev/null) || { storage=3; return; }
  (: >"$place/out/started") 2>/dev/null || storage=4
}

ask_console() {
  if command -v curl >/dev/null 2>&1; then
    http_tool=curl
    http_said=$(curl -sS -o /dev/null -w '\n%{http_code}' --connect-timeout 15 --max-time 20 "$url" 2>&1)
    http_status=$(printf '%s\n' "$http_said" | tail -n 1)
    http_said=$(printf '%s\n' "$http_said" | sed '$d')
  elif command -v wget >/dev/null 2>&1; then
    http_tool=wget
    http_said=$(wget -S -O /dev/null -T 15 -t 1 "$url" 2>&1)
    http_status=$(printf '%s\n' "$http_said" | sed -n 's|^ *HTTP/[0-9.]* \([0-9]*\).*|\1|p' | tail -n 1)
  elif command -v python3 >/dev/null 2>&1; then
    http_tool=python3
    http_said=$(python3 -I -c 'import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=15).status)
except urllib.error.HTTPError as error:
    print(error.code)
except OSError as error:
    print(error)' "$url" 2>&1)
    http_status=$http_said
  elif command -v bash >/dev/null 2>&1; then
    http_tool=bash
    http_said=$(bash -c 'exec 3<>"/dev/tcp/$0/$1" && printf "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n" "$2" "$0" >&3 && IFS= read -r -t 15 line <&3 &&
      printf "%s\n" "$line"' "$TUNEPLANE_PROBE_HOST" "$TUNEPLANE_PROBE_PORT" "$TUNEPLANE_PROBE_PATH" 2>&1)
    http_status=$(printf '%s\n' "$http_said" | sed -n 's|^HTTP/[0-9.]* \([0-9]*\).*|\1|p')
  fi
  case $http_status in [1-5][0-9][0-9]) ;; *) http_status=000 ;; esac
}

look_for_container() {
  case $TUNEPLANE_PROBE_CONTAINER in
    apptainer)
      for name in apptainer singularity; do
        if command -v "$name" >/dev/null 2>&1; then container=$("$name" --version 2>&1 | head -n 1) && return; fi
      done
      container_problem=missing ;;
    enroot-pyxis)
      srun --help 2>&1 | grep -q -e --container-image || { container_problem=missing; return; }
      container=pyxis
      if command -v enroot >/dev/null 2>&1; then container="pyxis, enroot $(enroot version 2>&1 | head -n 1)"; fi ;;
    oci) look_for_oci ;;
  esac
}

look_for_oci() {
  conf=${SLURM_CONF:-/etc/slurm/slurm.conf}
  if [ -z "$TUNEPLANE_PROBE_BUNDLE" ]; then
    if [ -e "${conf%/*}/oci.conf" ]; then container=${conf%/*}/oci.conf; else container_problem=no-oci-conf; fi
    return
  fi
  ours=$(readlink /proc/self/ns/mnt)
  theirs=$(srun --nodes=1 --ntasks=1 --container="$TUNEPLANE_PROBE_BUNDLE" readlink /proc/self/ns/mnt 2>&1)
  case $theirs in
    "$ours") container_problem=ignored ;;
    mnt:*) container=oci ;;
    *) container_problem=failed container=$theirs ;;
  esac
}

line() { printf '%s=%s\n' "$1" "$(printf %s "$2" | tr -c '[:print:]' ' ' | tail -c 400)"; }

answer() {
  line nonce "$nonce"
  line host "${SLURMD_NODENAME:-$(uname -n)}"
  line uid "$(id -u)"
  line user "$(id -un 2>/dev/null)"
  line file_system "$(stat -f -c %T "$root" 2>/dev/null)"
  line tmp_free_kb "$(df -Pk "${TMPDIR:-/tmp}" 2>/dev/null | tail -n 1 | tr -s ' ' | cut -d ' ' -f 4)"
  line http_tool "$http_tool"
  line http_status "$http_status"
  line http_said "$http_said"
  line container "$container"
  line container_problem "$container_problem"
  line cards "${CUDA_VISIBLE_DEVICES-}"
  line products "$(nvidia-smi -L 2>/dev/null | sed 's/ (UUID.*//' | tr '\n' ';')"
  line time "$(date +%s)"
}

look_at_storage
ask_console
look_for_container
if [ "$storage" = 0 ]; then
  { answer >"$place/out/answer.part" && mv "$place/out/answer.part" "$place/out/answer"; } 2>/dev/null || storage=4
fi
verdict=$((64 + storage))
case $http_status in 2??) ;; *) [ -z "$http_tool" ] || verdict=$((verdict + 8)) ;; esac
[ -z "$container_problem" ] || verdict=$((verdict + 16))
exit "$verdict"
