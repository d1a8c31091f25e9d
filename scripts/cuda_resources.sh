#!/bin/bash
# Compiles the GPU kernels (no GPU needed) and prints what each takes: registers of a thread, shared memory of a block, bytes
# of registers spilled to memory. Fails when any kernel spills. scripts/cuda_resources.sh [ARCHITECTURE...]: 90 by default
# (90-real, as CMake writes it, too); NVCC names the compiler.
set -euo pipefail
cd "$(dirname "$0")/.."

nvcc="${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}"
"$nvcc" --version > /dev/null || { echo "cuda_resources.sh: no nvcc in PATH nor in /usr/local/cuda/bin; NVCC names one" >&2; exit 2; }
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

compile() {  # ARCHITECTURE FILE
  local name="$1.$(basename "$2" .cu)"
  "$nvcc" -std=c++20 -O2 -Werror=all-warnings -I. -arch="sm_${1%%-*}" --keep --keep-dir "$work/$name" -Xptxas -v -c "$2" \
    -o "$work/$name.o" > "$work/$name.log" 2>&1 || { cat "$work/$name.log" >&2; return 1; }
}
export -f compile
export nvcc work
for architecture in "${@:-90}"; do
  for file in kernels/cuda/*.cu; do
    mkdir "$work/$architecture.$(basename "$file" .cu)"
    echo "$architecture $file"
  done
done | xargs -P "$(nproc)" -L 1 bash -c 'compile "$@"' _ || { echo "cuda_resources.sh: a kernel does not compile" >&2; exit 1; }

# The dynamic shared memory stands in the PTX, in a comment of each kernel that has any (kernels/cuda/device.h).
awk '
  FILENAME ~ /\.ptx$/ && /\.entry / { split($0, part, /\.entry |\(/); entry = part[2] }
  FILENAME ~ /\.ptx$/ && /dynamic shared memory: / { shared[entry] = $NF }
  FILENAME ~ /\.log$/ && /Compiling entry function/ { split($0, part, "\047"); entry = part[2]; architecture = part[4] }
  FILENAME ~ /\.log$/ && /spill stores/ { split($0, part, ", "); spilled = part[2] + part[3] }
  FILENAME ~ /\.log$/ && /Used [0-9]+ registers/ {
    for (i = 1; i < NF; ++i) if ($i == "Used") registers = $(i + 1)
    printf "%-6s %9d %7d %7d  %s\n", architecture, registers, shared[entry], spilled, entry
    ++kernels
    if (spilled > 0) ++bad
  }
  BEGIN { printf "%-6s %9s %7s %7s  %s\n", "", "registers", "shared", "spilled", "kernel" }
  END {
    if (kernels == 0) { print "no kernel was found in the output of ptxas"; exit 1 }
    if (bad > 0) { printf "%d kernels spill registers\n", bad; exit 1 }
  }
' "$work"/*/*.ptx "$work"/*.log | c++filt | sed 's/lion::cuda:://g; s/(anonymous namespace):://g; s/(.*)$//; s/void //'
