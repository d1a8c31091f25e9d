#!/bin/sh
# The main job in one command: installs what is missing, builds, starts the server with the two bundled models, classifies
# the bundled digits and compares a few sentences through the client, stops the server. Exits 0 when every step did, and
# every digit was recognised.
set -eu
cd "$(dirname "$0")/.."

scripts/setup.sh build
echo "Building (some minutes the first time) ..."
cmake --preset release -DLION_BUILD_TESTS=OFF > /dev/null
cmake --build --preset release --target lion_server_main lion

bin=build/release/bin
log=build/release/quickstart-server.log
# Port 0: any free one, which the server's log names.
"$bin/lion-server" --model models/mnist-lion-s --model models/minilm-lion-s --host 127.0.0.1 --grpc-port 0 --metrics-port 0 2> "$log" &
server=$!
trap 'kill "$server" 2> /dev/null || true' EXIT

fail() {
  echo "quickstart: $1; the server's log ($log):" >&2
  cat "$log" >&2
  exit 1
}

port=""
for _ in $(seq 100); do
  port=$(sed -n 's/.*listening on .* port \([0-9]*\).*/\1/p' "$log" | head -n 1)
  [ -z "$port" ] || break
  kill -0 "$server" 2> /dev/null || fail "the server did not start"
  sleep 0.1
done
[ -n "$port" ] || fail "the server did not say its port"
export LION_SERVER="127.0.0.1:$port"
"$bin/lion" health --wait 60 > /dev/null || fail "the server did not become ready"

echo
"$bin/lion" models
echo
"$bin/lion" classify --model mnist-lion-s models/mnist-lion-s/digits/*.png --top-k 3 || fail "the classification failed"
wrong=0
for image in models/mnist-lion-s/digits/*.png; do
  "$bin/lion" classify --model mnist-lion-s "$image" --top-k 1 --json | grep -q "\"label\":\"$(basename "$image" .png)\"" || wrong=$((wrong + 1))
done

echo
echo "How alike sentences are (1: the same):"
"$bin/lion" similar --model minilm-lion-s \
  --text "How do I reset my password?" \
  --text "I cannot log in because I forgot my login details." \
  --text "The cat sleeps on the warm windowsill." \
  --text "A kitten is taking a nap in the sun." \
  --text "Stock prices fell sharply on Monday." || fail "the comparison failed"

kill -TERM "$server"
trap - EXIT
wait "$server" || fail "the server did not stop cleanly"
echo
[ "$wrong" = 0 ] || fail "$wrong of 10 digits were not recognised"
echo "All 10 digits recognised; the server stopped cleanly. Serve your own model:"
echo "  $bin/lion-server --model path/to/checkpoint.pth"
