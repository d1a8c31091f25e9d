#!/bin/bash
# lion-server as nobody, without a capability, where every mount is read-only (so that there is no /tmp and no home to write
# to): it gets ready, classifies the bundled digits, and stops with exit code 0. Needs a build, and root or user namespaces:
# without root the server runs under the caller's own uid. scripts/acceptance/read_only.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ "${1:-}" != inside ]; then
  namespaces=(--mount)
  [ "$(id -u)" = 0 ] || namespaces+=(--user --map-root-user)
  exec unshare "${namespaces[@]}" "$0" inside
fi

# Only in this namespace.
mount --make-rprivate /
while read -r point; do
  case "$point" in
    /dev | /dev/* | /proc | /proc/* | /sys | /sys/*) ;;
    *) mount -o remount,bind,ro "$point" ;;
  esac
done < <(awk '{print $5}' /proc/self/mountinfo | sort -r)
for folder in . /tmp /run "${HOME:-/}"; do
  ! touch "$folder/written" 2> /dev/null || { echo "read_only.sh: $folder can still be written to" >&2; exit 2; }
done

as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all)
"${as_nobody[@]}" true 2> /dev/null || as_nobody=(setpriv --no-new-privs --inh-caps=-all --bounding-set=-all)
as_nobody+=(env -i PATH=/usr/bin:/bin)
bin=build/release/bin
exec {log}< <(
  "${as_nobody[@]}" "$bin/lion-server" --model models/mnist-lion-s --host 127.0.0.1 --grpc-port 0 --metrics-port 0 2>&1 &
  echo "pid $!"
  wait $! && echo "exit 0" || echo "exit $?"
)
pid="" port="" code=""
trap '[ -z "$pid" ] || kill "$pid" 2> /dev/null || true' EXIT
while read -r -t 60 -u "$log" line; do
  case "$line" in
    "pid "*) pid=${line#pid } ;;
    *"SERVING on "*" port "*)
      port=${line##*port }
      break
      ;;
    "exit "*)
      echo "the server has ended: $line" >&2
      exit 1
      ;;
    *" E "*) echo "$line" ;;
  esac
done
[ -n "$port" ] || { echo "the server is not ready after a minute" >&2; exit 1; }
awk '/^(Name|Uid|Gid|CapEff|NoNewPrivs)/ {print "  " $1 " " $2}' "/proc/$pid/status"
"${as_nobody[@]}" "$bin/lion" classify models/mnist-lion-s/digits --top-k 1 --server "127.0.0.1:$port"
kill "$pid"
while read -r -t 60 -u "$log" line; do
  echo "$line"
  case "$line" in "exit "*) code=${line#exit } ;; esac
done || true
[ "$code" = 0 ] || { echo "exit code $code, want 0" >&2; exit 1; }
echo "nothing was written, nor could be"
