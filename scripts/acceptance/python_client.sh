#!/usr/bin/env bash
# Installs client/python with pip and uses it against real servers: the goldens of images and texts, every kind of
# input, bulk runs over a server that is restarted, a full queue, deadlines, TLS, tokens, a Unix socket. Then the
# client's own tests and mypy on what was installed. Needs the release build and a Python 3.9 or later; makes a virtual
# environment with the newest packages of PyPI, or those named: python_client.sh [PACKAGE==VERSION...]
set -euo pipefail
cd "$(dirname "$0")/../.."
export PYTHONDONTWRITEBYTECODE=1 MYPY_CACHE_DIR=/dev/null
for file in build/release/bin/lion-server build/release/bin/lion; do
  [[ -e $file ]] || { echo "$file is missing: scripts/quickstart.sh builds it" >&2; exit 2; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" -q install ./client/python pillow mypy types-protobuf "$@"
python=$work/venv/bin/python
"$python" -m pip list 2> /dev/null | grep -E '^(grpcio|numpy|protobuf|lion-client) '
"$python" scripts/acceptance/python_client.py
# Away from the source, so that what is tested is what was installed.
mkdir "$work/away"
cp -r client/python/tests client/python/pyproject.toml "$work/away"
cd "$work/away"
rm tests/test_generated.py
"$python" -m unittest discover -s tests -t .
"$python" -m mypy
