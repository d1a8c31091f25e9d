#!/bin/sh
# The share of the server's instructions that its metrics take while it serves the smallest requests there are, counted by
# callgrind: images of one patch, one a call, for a model of 95,000 parameters. Fails above 1 %. metrics_cost.sh [REQUESTS].
# Needs a build (scripts/test.sh makes it) and valgrind.
set -eu
cd "$(dirname "$0")/../.."
requests=${1:-500}
for tool in valgrind callgrind_annotate; do
  command -v "$tool" > /dev/null || { echo "metrics_cost.sh: needs $tool (the Debian package valgrind)" >&2; exit 1; }
done
folder=$(mktemp -d)
# Begins to count anew when the models are loaded and warm.
valgrind --tool=callgrind --dump-before='lion::Readiness::Serve*' --callgrind-out-file="$folder/profile" \
  build/release/bin/lion-server --host 127.0.0.1 --grpc-port 0 --metrics-port 0 --cpu-threads 1 \
  --model m=tests/golden/vision/lit_normal > "$folder/log" 2>&1 &
server=$!
trap 'kill "$server" 2> /dev/null || true; wait "$server" || true; rm -r "$folder"' EXIT
until grep -q "SERVING on .* port" "$folder/log"; do
  kill -0 "$server" 2> /dev/null || { cat "$folder/log" >&2; exit 1; }
  sleep 0.2
done
port=$(sed -n 's/.* I SERVING on .* port \([0-9]*\)$/\1/p' "$folder/log")

build/release/bin/lion bench --server "127.0.0.1:$port" --concurrency 4 --warm-up-s 0 --sizes 8 --requests "$requests" \
  > "$folder/bench" 2>&1
kill "$server"
wait "$server"

# What the rest of the server calls, with all that these call.
callgrind_annotate --inclusive=yes --threshold=100 "$folder/profile" > "$folder/functions"
awk -v requests="$requests" '
  { count = $1; gsub(/,/, "", count) }
  /PROGRAM TOTALS/ { total = count }
  /Series<lion::Metrics::Impl>::(CountRequest|CountRejected|CountNonFinite|ObserveInput|ObserveBatch|AddInFlight|AddQueued)\(/ {
    metrics += count
    ++functions
  }
  END {
    # Counting a request, an input, a batch, what is in flight and what is queued.
    if (functions < 5 || total == 0) {
      print "metrics_cost.sh: only " functions + 0 " functions of the metrics were seen, want at least 5" > "/dev/stderr"
      exit 1
    }
    printf "%d requests: %.0f of %.0f instructions a request, %.3f %%, are the metrics\n", requests, metrics / requests,
      total / requests, 100 * metrics / total
    exit metrics > 0.01 * total
  }' "$folder/functions"
