#!/bin/sh
# 50 hot reloads under load, then one of a corrupt version: no request fails, every answer is to the bit that of the old
# or of the new model, the corrupt version leaves the old one serving, threads and memory of old models come back. Needs
# a build (scripts/test.sh makes it).
set -eu
cd "$(dirname "$0")/../.."
LION_RELOADS=50 build/release/tests/reload_test --gtest_filter='*UnderLoad*'
