#!/usr/bin/env bash
# The same weights and images through our engine, PyTorch, ONNX Runtime and OpenVINO: run.sh [FLAGS of compare.py].
# The same weights and texts through our engine, transformers and PyTorch: run.sh --text [FLAGS of text.py].
# Makes a virtual environment from PyPI (build/peers/venv, or $LION_PEERS_VENV), and lion_runner if it is not built.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=benchmarks/peers
venv=${LION_PEERS_VENV:-build/peers/venv}
export PYTHONDONTWRITEBYTECODE=1

runner=build/release/bin/lion_runner
if [[ ! -x $runner && $* != *--lion-runner* ]]; then
  cmake --preset release
  cmake --build build/release --target lion_runner
fi

wanted=$(cat $here/requirements*.txt $here/cuda_stand_ins.py | sha256sum)
if [[ $(cat "$venv/wanted" 2> /dev/null) != "$wanted" ]]; then
  python3 -m venv "$venv"
  pip=("$venv/bin/python" -m pip --quiet --disable-pip-version-check)
  "${pip[@]}" install -r $here/requirements.txt
  # Gigabytes of CUDA libraries stay out: cuda_stand_ins.py says how.
  "${pip[@]}" install --no-deps -r $here/requirements-torch.txt
  "$venv/bin/python" -c 'import torch' 2> /dev/null || "$venv/bin/python" $here/cuda_stand_ins.py
  "$venv/bin/python" -c 'import torch, onnxruntime, openvino'
  echo "$wanted" > "$venv/wanted"
fi
if [[ ${1:-} == --text ]]; then
  exec "$venv/bin/python" $here/text.py "${@:2}"
fi
exec "$venv/bin/python" $here/compare.py "$@"
