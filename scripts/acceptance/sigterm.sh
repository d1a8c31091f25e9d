#!/bin/sh
# SIGTERM under load, 50 times with calls and 50 times with streams: every accepted request is answered, the server exits
# with 0. sigterm.sh [TIMES]. Needs a build (scripts/test.sh makes it).
set -eu
cd "$(dirname "$0")/../.."
times=${1:-50}
for test in end_to_end_life_cycle_test:LifeCycleTest.SigtermUnderLoadLosesNothing \
  end_to_end_stream_life_cycle_test:StreamLifeCycle.SigtermUnderLoadAnswersOrReturnsEveryRequest; do
  log=$(mktemp)
  build/release/tests/${test%%:*} --gtest_filter="${test#*:}" --gtest_repeat="$times" > "$log" || {
    cat "$log"
    exit 1
  }
  echo "${test#*:}: $(grep -c '\[       OK \]' "$log") of $times passed"
  rm "$log"
done
