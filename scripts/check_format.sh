#!/bin/sh
# Fails when a C++ file is not as clang-format 14 would write it. scripts/check_format.sh --fix: writes it so.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh lint
if [ "${1:-}" = --fix ]; then
  git ls-files '*.h' '*.cc' '*.cu' | xargs clang-format-14 -i
else
  git ls-files '*.h' '*.cc' '*.cu' | xargs clang-format-14 --dry-run --Werror
  echo "format: $(git ls-files '*.h' '*.cc' '*.cu' | wc -l) files are as clang-format writes them"
fi
