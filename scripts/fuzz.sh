#!/bin/bash
# Runs fuzz targets for as long as wanted. scripts/fuzz.sh [TARGET...] [--seconds N]: all targets (tests/fuzz), 300 s each.
#
# One process a core; several share a target where there are more cores. What is found is kept in build/fuzz/TARGET: corpus
# (minimised at the end, the start of the next run), crash-* and the like (an input to reproduce with), log-*. Prints a
# table; exits 1 after a crash.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=300
targets=()
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds) seconds="${2:?--seconds needs a number}"; shift 2 ;;
    -*) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2 ;;
    *) targets+=("$1"); shift ;;
  esac
done
if [ ${#targets[@]} = 0 ]; then
  for folder in tests/fuzz/corpus/*/; do targets+=("$(basename "$folder")"); done
fi
for target in "${targets[@]}"; do
  [ -d "tests/fuzz/corpus/$target" ] || { echo "fuzz.sh: there is no target '$target' in tests/fuzz" >&2; exit 2; }
done

scripts/setup.sh sanitize
cmake --preset asan -DLION_BUILD_TESTS=ON > /dev/null
cmake --build --preset asan --target "${targets[@]/#/fuzz_}" > build/asan/fuzz-build.log || {
  cat build/asan/fuzz-build.log
  exit 1
}
export PATH="/usr/lib/llvm-14/bin:/usr/lib/llvm-19/bin:$PATH"
export ASAN_OPTIONS="quarantine_size_mb=32:malloc_context_size=10${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
cores=$(nproc)
workers=$(((cores + ${#targets[@]} - 1) / ${#targets[@]}))

# TARGET WORKER
fuzz() {
  local home="build/fuzz/$1" flags
  mapfile -t flags < "build/asan/fuzz/$1.flags"
  build/asan/fuzz/fuzz_"$1" "${flags[@]}" -artifact_prefix="$home/" -reload=10 -max_total_time="$seconds" \
    "$home/corpus" "tests/fuzz/corpus/$1" > "$home/log-$2" 2>&1 || true
}
# TARGET: the inputs of its corpus that are needed for what they reach.
minimise() {
  local home="build/fuzz/$1" flags
  mapfile -t flags < "build/asan/fuzz/$1.flags"
  rm -rf "$home/merged"
  mkdir "$home/merged"
  if build/asan/fuzz/fuzz_"$1" "${flags[@]}" -artifact_prefix="$home/" -merge=1 "$home/merged" "tests/fuzz/corpus/$1" \
    "$home/corpus" > "$home/log-merge" 2>&1; then
    rm -rf "$home/corpus"
    mv "$home/merged" "$home/corpus"
  fi
}
export -f fuzz minimise
export seconds

for target in "${targets[@]}"; do
  mkdir -p "build/fuzz/$target/corpus"
  rm -f "build/fuzz/$target"/log-*
done
started=$(mktemp build/fuzz/started.XXXXXX)
for target in "${targets[@]}"; do
  for worker in $(seq "$workers"); do printf '%s %s\n' "$target" "$worker"; done
done | xargs -P "$cores" -L 1 bash -c 'fuzz "$0" "$1"'
printf '%s\n' "${targets[@]}" | xargs -P "$cores" -L 1 bash -c 'minimise "$0"'

# The most of libFuzzer's figure NAME: of all workers of a target.
most() { sed -n "s/.* $1: \([0-9]*\).*/\1/p" "$2"/log-[0-9]* | sort -n | tail -n 1; }
sum() { sed -n "s/^stat::$1: *//p" "$2"/log-[0-9]* | awk '{ total += $1 } END { print total + 0 }'; }
crashes=0
printf '%-14s %12s %9s %8s %9s %8s %8s\n' target executions exec/s edges features inputs crashes
for target in "${targets[@]}"; do
  home="build/fuzz/$target"
  found=$(find "$home" -maxdepth 1 -newer "$started" \( -name 'crash-*' -o -name 'leak-*' -o -name 'oom-*' -o -name 'timeout-*' \) | wc -l)
  crashes=$((crashes + found))
  printf '%-14s %12s %9s %8s %9s %8s %8s\n' "$target" "$(sum number_of_executed_units "$home")" \
    "$(sum average_exec_per_sec "$home")" "$(most cov "$home")" "$(most ft "$home")" \
    "$(find "$home/corpus" -type f | wc -l)" "$found"
done
rm -f "$started"
[ "$crashes" = 0 ] || { echo "inputs that crash: build/fuzz/*/crash-* and the like; the logs beside them say how"; exit 1; }
