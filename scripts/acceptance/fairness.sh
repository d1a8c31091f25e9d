#!/bin/sh
# A probe of highest priority beside a caller that saturates the server keeps the batcher's latency bound; two callers of
# equal priority get equal shares, however much each has in flight. Needs a build (scripts/test.sh makes it).
set -eu
cd "$(dirname "$0")/../.."
LION_FAIRNESS_SECONDS=10 build/release/tests/fairness_test
