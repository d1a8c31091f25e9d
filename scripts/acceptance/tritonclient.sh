#!/usr/bin/env bash
# Drives this server with tritonclient, Triton's own Python client: metadata, configuration, statistics, inference with raw
# tensors and with contents, streams, loading and unloading, classification, errors. Prints what it counted and fails on the
# first difference.
# Needs the release build and Python 3.9 or later; makes a virtual environment (PYTHON names a Python with tritonclient[grpc]
# and numpy instead).
set -euo pipefail
cd "$(dirname "$0")/../.."
export PYTHONDONTWRITEBYTECODE=1
for file in build/release/bin/lion-server build/release/bin/lion; do
  [[ -e $file ]] || { echo "$file is missing: scripts/quickstart.sh builds it" >&2; exit 2; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=${PYTHON:-}
if [[ -z $python ]]; then
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" -q install 'tritonclient[grpc]==2.73.0' numpy
  python=$work/venv/bin/python
fi
"$python" scripts/acceptance/tritonclient_check.py "$work"
