#!/bin/sh
# Builds with line counters, runs every test, prints the lines covered in each folder of the source tree. Fails when a test
# does, or when less than 85 % of model_loader, engine or server is covered. scripts/coverage.sh [--missing FOLDER]: also
# lists the lines of FOLDER that no test ran.
set -eu
cd "$(dirname "$0")/.."

scripts/setup.sh coverage
cmake --preset coverage -DLION_BUILD_TESTS=ON > /dev/null
cmake --build --preset coverage
find build/coverage -name '*.gcda' -delete
ctest --preset coverage -j "$(nproc)"
python3 scripts/coverage.py build/coverage "$@"
