#!/bin/sh
# Installs what is missing, builds everything and runs every test. scripts/test.sh [PRESET]: release (default), asan, tsan.
set -eu
cd "$(dirname "$0")/.."
preset="${1:-release}"

scripts/setup.sh test
cmake --preset "$preset" -DLION_BUILD_TESTS=ON > /dev/null
cmake --build --preset "$preset"
ctest --preset "$preset" -j "$(nproc)"
