#!/bin/sh
# Installs what is missing, builds everything and runs every test. scripts/test.sh [PRESET]: release (default), asan
# (clang; each fuzz target runs 20 s, too), tsan.
set -eu
cd "$(dirname "$0")/.."
preset="${1:-release}"

case "$preset" in
  asan) scripts/setup.sh sanitize ;;
  *) scripts/setup.sh test ;;
esac
cmake --preset "$preset" -DLION_BUILD_TESTS=ON > /dev/null
cmake --build --preset "$preset"
ctest --preset "$preset" -j "$(nproc)"
