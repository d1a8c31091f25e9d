#!/bin/sh
# 2,000 images of mixed sizes (32 to 512 pixels a side) from 32 concurrent clients: each answer equals the same image alone, bit
# for bit. scripts/acceptance/batch_invariance.sh [MODEL]. Needs a build (scripts/test.sh makes it).
set -eu
cd "$(dirname "$0")/../.."
[ $# = 0 ] || export LION_INVARIANCE_MODEL="$1"
LION_INVARIANCE_IMAGES=2000 LION_INVARIANCE_CLIENTS=32 build/release/tests/batch_invariance_test
