#!/usr/bin/env bash
# Compares the tokenizer with the package `tokenizers` on every code point and on a million mixed lines, and fails on
# any difference but the code points printed, whose properties differ between Unicode versions: tokenizer.sh [LINES]
# Needs the release build with its tests, and Python 3.9 or later; makes a virtual environment (PYTHON names a Python
# that has `tokenizers` instead).
set -euo pipefail
cd "$(dirname "$0")/../.."
lines=${1:-1000000}
encode=build/release/tests/encode_lines
export PYTHONDONTWRITEBYTECODE=1
[[ -x $encode ]] || { echo "$encode is missing: scripts/test.sh builds it" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=${PYTHON:-}
if [[ -z $python ]]; then
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" -q install tokenizers==0.23.3
  python=$work/venv/bin/python
fi
"$python" scripts/acceptance/tokenizer.py "$encode" "$lines"
