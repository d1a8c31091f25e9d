#!/usr/bin/env bash
# Classifies MNIST's 10,000 test digits with PyTorch and with the server in float32 and bfloat16, and fails if the
# server's accuracy differs: accuracy.sh [MNIST FOLDER]
# Needs the release build, and a Python with PyTorch, NumPy and Pillow (PYTHON names it; tools/README.md).
set -euo pipefail
cd "$(dirname "$0")/../.."
mnist=${1:-../shared/data/mnist}
bin=${LION_BIN:-build/release/bin}
model=models/mnist-lion-s
export PYTHONDONTWRITEBYTECODE=1

for file in "$bin/lion-server" "$bin/lion" "$model/checkpoint.pth" "$mnist/t10k-images-idx3-ubyte.gz"; do
  [[ -e $file ]] || { echo "$file is missing" >&2; exit 2; }
done
for python in ${PYTHON:-python3 /usr/bin/python3} ''; do
  [[ -n $python ]] || { echo "no Python with PyTorch, NumPy and Pillow: set PYTHON" >&2; exit 2; }
  "$python" -c 'import numpy, PIL, torch' 2> /dev/null && break
done

work=$(mktemp -d)
server=
stop_server() {
  [[ -z $server ]] || { kill "$server" && wait "$server"; } 2> /dev/null || true
  server=
}
trap 'stop_server; rm -rf "$work"' EXIT

"$python" tools/export_mnist_png.py "$work/digits" --mnist "$mnist"
"$python" tools/accuracy_pytorch.py "$model" "$work/digits" "$work/pytorch.csv"

answers=()
for type in float32 bfloat16; do
  polls=0
  port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("localhost", 0)); print(s.getsockname()[1])')
  "$bin/lion-server" --model "$model" --grpc-port "$port" --metrics-port 0 --compute-type "$type" > "$work/$type.log" 2>&1 &
  server=$!
  until "$bin/lion" health --server "localhost:$port" > /dev/null 2>&1; do
    if ! kill -0 "$server" 2> /dev/null; then
      server=
      echo "lion-server has ended:" >&2
      cat "$work/$type.log" >&2
      [[ $type == bfloat16 ]] && grep -q 'cannot compute in bfloat16' "$work/$type.log" || exit 1
      echo 'bfloat16: SKIPPED, this machine cannot compute in it'
      continue 2
    fi
    ((++polls < 600)) || { echo "lion-server is not ready after a minute:" >&2; cat "$work/$type.log" >&2; exit 1; }
    sleep 0.1
  done
  "$bin/lion" classify "$work/digits" --top-k 1 --json --server "localhost:$port" > "$work/$type.jsonl"
  stop_server
  answers+=("$work/$type.jsonl")
done

"$python" scripts/acceptance/accuracy.py "$work/pytorch.csv" "${answers[@]}"
